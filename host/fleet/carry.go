package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/signed"
)

const (
	pathRequest = "/fleet/v1/request"
	// maxMessage bounds a request and an answer, in bytes.
	maxMessage = 64 << 20
	// grace is how much longer than a caller the sender waits for the answer, which says whether the turn has begun by then.
	grace = time.Second
)

// Carry implements host.Carrier.
func (f *Fleet) Carry(ctx context.Context, to *actorstore.HostInfo, request []byte) ([]byte, error) {
	at, err := f.peers.URL(to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	far, end := patient(ctx)
	defer end()
	r, err := http.NewRequestWithContext(far, http.MethodPost, at+pathRequest, bytes.NewReader(request))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	if err := f.sign(ctx, r, request, to); err != nil {
		return nil, err
	}
	answer, sent, err := f.peers.Do(r)
	lost := func(err error) error {
		switch {
		case sent:
			return fmt.Errorf("%w: host %q: %w", host.ErrUnknownOutcome, to.Name, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return fmt.Errorf("%w: host %q at %s: %w", host.ErrUnreachable, to.Name, to.Offer.Address, err)
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
	if err = refused(to, answer); sent {
		err = lost(errors.New(err.Error())) // something may have been done
	}
	return nil, err
}

// refused returns the error for an answer that isn't one of the host that was asked.
func refused(to *actorstore.HostInfo, answer *http.Response) error {
	reason := answer.Header.Get(peers.ReasonHeader)
	switch {
	case reason == peers.ReasonReplayed:
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
	var rest []byte
	if at, ok := ctx.Deadline(); ok {
		rest = binary.AppendUvarint(nil, uint64(max(time.Until(at), time.Millisecond)))
	}
	err = f.peers.Sign(ctx, r, body, to, caller, rest)
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

// PathSocket is the path of the sockets by which hosts connect clients to actors of others. What goes over them package front says.
const PathSocket = "/fleet/v1/socket"

// Dial opens a socket to another host, for a client of an actor that it has, with the caller of the context. path is that of the client's own socket.
// host.ErrUnreachable says that nothing was done.
func (f *Fleet) Dial(ctx context.Context, to *actorstore.HostInfo, a host.Address, path string) (*websocket.Conn, error) {
	at, err := f.peers.URL(to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	query := url.Values{"type": {a.Type}, "key": {a.Key}, "path": {path}}
	at += PathSocket + "?" + query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	if err := f.sign(ctx, r, nil, to); err != nil {
		return nil, err
	}
	ws, answer, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: f.peers.Client(), HTTPHeader: r.Header})
	if err == nil {
		return ws, nil
	}
	if answer != nil && answer.Header.Get(peers.ReasonHeader) != "" {
		err = refused(to, answer)
	}
	return nil, fmt.Errorf("%w: host %q: %w", host.ErrUnreachable, to.Name, err)
}
