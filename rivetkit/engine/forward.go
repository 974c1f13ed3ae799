package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/signed"
)

// What one engine passes on to another one is the client's request: its method, path, query, headers and body. The signature says for which actor it is, so that the
// other engine looks neither for that nor for a token, and from which address it comes, whose share is counted there, too.
//
// The body is signed, too, which takes all of it before it is sent. It is there: an engine reads a body before it looks for the actor, up to
// Options.MaxBody, since a request is one message to a runner. So it can also be sent again, after an actor that moves. Answers are passed on as they come.

// reasonAnswer is the reason of an answer that is the actor's, or the engine's for the client, and reasonMoved of one that says that the actor isn't there.
const (
	reasonAnswer = "answer"
	reasonMoved  = "moved"
)

// request returns a client's request as it is sent to another engine. err is errFar.
func (f *fleet) request(ctx context.Context, r *http.Request, body []byte, id actorstore.ID, to *actorstore.HostInfo) (*http.Request, error) {
	text, err := f.peers.URL(to)
	if err != nil {
		return nil, far(to, err)
	}
	at, err := url.Parse(text)
	if err != nil {
		return nil, far(to, err)
	}
	u := *r.URL
	u.Scheme, u.Host, u.User = at.Scheme, at.Host, nil
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, far(to, err)
	}
	out.URL, out.Host, out.Header = &u, r.Host, passedHeaders(r.Header)
	if err := f.peers.Sign(ctx, out, body, to, []byte(r.RemoteAddr), []byte(id.String())); err != nil {
		return nil, far(to, err)
	}
	return out, nil
}

// passedHeaders returns the headers of a client's request without those that are about its connection.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
func passedHeaders(h http.Header) http.Header {
	h = h.Clone()
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", signed.Header,
		"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
	} {
		h.Del(name)
	}
	if len(h["User-Agent"]) == 0 {
		h["User-Agent"] = []string{""} // else that of Go's client is added
	}
	return h
}

// told returns nil for an answer that is for the client, and else what another engine, or a proxy in front of it, says.
func told(to *actorstore.HostInfo, answer *http.Response) error {
	switch reason := answer.Header.Get(peers.ReasonHeader); {
	case reason == reasonAnswer:
		return nil
	case reason == reasonMoved:
		return errMoved
	case reason == peers.ReasonReplayed, reason == "" && answer.StatusCode >= 500:
		return errEngineLost
	default:
		return far(to, errors.New(answer.Status+" "+reason))
	}
}

// pass passes the request of an exchange on to another engine, and what that answers to the client. It returns an error only if the client has got nothing.
func (f *fleet) pass(x *exchange, to *actorstore.HostInfo, id actorstore.ID, body []byte) error {
	r, err := f.request(x.ctx, x.r, body, id, to)
	if err != nil {
		return err
	}
	answer, sent, err := f.peers.Do(r)
	switch {
	case err == nil:
	case x.ctx.Err() != nil:
		return x.ctx.Err()
	case sent:
		return errEngineLost
	default:
		return far(to, err)
	}
	defer answer.Body.Close() // it was read, or is of no use
	if err := told(to, answer); err != nil {
		if sent {
			return errEngineLost
		}
		return err
	}
	if x.late != nil {
		x.late.Stop()
	}
	for name, values := range answer.Header {
		switch name {
		case peers.ReasonHeader, "Connection", "Date":
		default:
			x.w.Header()[name] = slices.Concat(x.w.Header()[name], values)
		}
	}
	x.w.WriteHeader(answer.StatusCode)
	buf := make([]byte, piece)
	for {
		n, err := answer.Body.Read(buf)
		if n > 0 && x.write(buf[:n], answer.ContentLength < 0) != nil {
			return nil // the client has gone
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the client must see that the answer is cut off
		}
	}
}
