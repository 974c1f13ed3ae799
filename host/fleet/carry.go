package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/signed"
)

const (
	pathRequest = "/fleet/v1/request"
	// maxMessage bounds a request and an answer, in bytes.
	maxMessage = 64 << 20
	// grace is how much longer than a caller the sender waits for the answer, which says whether the turn has begun by then.
	grace = time.Second
)

// reasonHeader says why a host hasn't done what it was asked: a reason.
const reasonHeader = "Greenroom-Reason"

// Carry implements host.Carrier.
func (f *Fleet) Carry(ctx context.Context, to *actorstore.HostInfo, request []byte) ([]byte, error) {
	if !f.safe(to.Offer.Address) {
		return nil, fmt.Errorf("%w: host %q is at %s, to which requests would go unencrypted", host.ErrUnreachable, to.Name, to.Offer.Address)
	}
	far, end := patient(ctx)
	defer end()
	var sent, reused atomic.Bool
	far = httptrace.WithClientTrace(far, &httptrace.ClientTrace{
		GotConn:      func(c httptrace.GotConnInfo) { reused.Store(c.Reused) },
		WroteHeaders: func() { sent.Store(true) },
	})
	r, err := http.NewRequestWithContext(far, http.MethodPost, address(to)+pathRequest, bytes.NewReader(request))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	if err := f.sign(ctx, r, request, to); err != nil {
		return nil, err
	}
	lost := func(err error) error {
		switch {
		case sent.Load():
			return fmt.Errorf("%w: host %q: %w", host.ErrUnknownOutcome, to.Name, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return fmt.Errorf("%w: host %q at %s: %w", host.ErrUnreachable, to.Name, to.Offer.Address, err)
	}
	answer, err := f.client.Do(r)
	if err != nil && reused.Load() && ctx.Err() == nil {
		// A connection over which nothing went may end just as a request goes over it. The same request may be sent again: a host takes it once.
		if r.Body, err = r.GetBody(); err == nil {
			answer, err = f.client.Do(r)
		}
	}
	if err != nil {
		return nil, lost(err)
	}
	defer answer.Body.Close() // it was read, or is of no use
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
	switch {
	case err != nil:
		return nil, lost(err)
	case len(body) > maxMessage:
		return nil, lost(fmt.Errorf("an answer of more than %d bytes", maxMessage))
	case answer.StatusCode == http.StatusOK:
		return body, nil
	}
	return nil, refused(to, answer)
}

// refused returns the error for an answer that isn't one of the host that was asked.
func refused(to *actorstore.HostInfo, answer *http.Response) error {
	reason := answer.Header.Get(reasonHeader)
	switch {
	case reason == reasonReplayed:
		return fmt.Errorf("%w: host %q: the request came twice", host.ErrUnknownOutcome, to.Name)
	case reason == "" && answer.StatusCode >= 500:
		// A proxy in front of the host doesn't say whether the host got the request.
		return fmt.Errorf("%w: host %q: status %d", host.ErrUnknownOutcome, to.Name, answer.StatusCode)
	}
	return fmt.Errorf("%w: host %q: status %d: %s", host.ErrUnreachable, to.Name, answer.StatusCode, reason)
}

// sign signs a request to a host, for the caller and the deadline of a context.
func (f *Fleet) sign(ctx context.Context, r *http.Request, body []byte, to *actorstore.HostInfo) error {
	caller, err := encodeCaller(host.CallerOf(ctx))
	if err != nil {
		return fmt.Errorf("%w: the caller: %w", host.ErrArgs, err)
	}
	s := &signed.Statement{To: to.ID, Hop: 1, Caller: caller}
	if at, ok := ctx.Deadline(); ok {
		s.Rest = binary.AppendUvarint(nil, uint64(max(time.Until(at), time.Millisecond)))
	}
	err = f.keys.Sign(ctx, r, body, s)
	switch {
	case errors.Is(err, signed.ErrTooLarge):
		return fmt.Errorf("%w: the caller: %w", host.ErrArgs, err)
	case err != nil:
		return fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	return nil
}

// patient returns a context that ends when ctx is cancelled, and a while after its deadline.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	far, cancel := context.WithDeadline(context.WithoutCancel(ctx), at.Add(grace))
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return far, func() { stop(); cancel() }
}

// address returns the beginning of the URLs of a host.
func address(to *actorstore.HostInfo) string {
	if strings.HasPrefix(to.Offer.Address, "https://") {
		return to.Offer.Address
	}
	return "http://" + to.Offer.Address
}

// PathSocket is the path of the sockets by which hosts connect clients to actors of others. What goes over them package front says.
const PathSocket = "/fleet/v1/socket"

// Dial opens a socket to another host, for a client of an actor that it has, with the caller of the context. path is that of the client's own socket.
// host.ErrUnreachable says that nothing was done.
func (f *Fleet) Dial(ctx context.Context, to *actorstore.HostInfo, a host.Address, path string) (*websocket.Conn, error) {
	if !f.safe(to.Offer.Address) {
		return nil, fmt.Errorf("%w: host %q is at %s, to which a socket would go unencrypted", host.ErrUnreachable, to.Name, to.Offer.Address)
	}
	query := url.Values{"type": {a.Type}, "key": {a.Key}, "path": {path}}
	at := address(to) + PathSocket + "?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	if err := f.sign(ctx, r, nil, to); err != nil {
		return nil, err
	}
	ws, answer, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: f.client, HTTPHeader: r.Header})
	if err == nil {
		return ws, nil
	}
	if answer != nil && answer.Header.Get(reasonHeader) != "" {
		err = refused(to, answer)
	}
	return nil, fmt.Errorf("%w: host %q: %w", host.ErrUnreachable, to.Name, err)
}
