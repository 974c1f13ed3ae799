package engine

import (
	"context"
	"errors"
	"net/http"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
)

// A WebSocket of a client whose actor another engine has is two: one of the client, which this engine has accepted, and one to the other engine, which serves it as
// if it were the client's. Messages go both ways one by one, so that an end that doesn't read stops the other one from sending.

// dial opens a client's WebSocket at another engine. The errors are those of follow's there.
func (f *fleet) dial(ctx context.Context, r *http.Request, id actorstore.ID, to *actorstore.HostInfo) (*websocket.Conn, error) {
	shake, cancel := context.WithTimeout(ctx, f.e.opts.ReadyTimeout)
	defer cancel()
	out, err := f.request(shake, r, nil, id, to)
	if err != nil {
		return nil, err
	}
	ws, answer, err := websocket.Dial(shake, out.URL.String(), &websocket.DialOptions{
		HTTPClient: f.peers.Client(), HTTPHeader: out.Header, Host: out.Host, Subprotocols: subprotocols(r),
	})
	if err == nil {
		ws.SetReadLimit(maxMessage)
		return ws, nil
	}
	if answer != nil && answer.Header.Get(peers.ReasonHeader) == reasonMoved {
		return nil, errMoved
	}
	return nil, far(to, err) // an actor that was told of the socket hears that it is closed
}

// relay connects the client with the socket at another engine until one of them ends, and ends the other in the same way.
func (s *socket) relay(ctx context.Context, far *websocket.Conn, in *incoming) {
	ctx, cancel := context.WithCancel(ctx)
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer cancel() // nothing more is written to it
		s.back(ctx, far)
	}()
	s.forth(ctx, far, in)
	<-back
	_ = far.CloseNow()
}

// forth sends what the client sends to the other engine, and closes the socket there as the client does.
func (s *socket) forth(ctx context.Context, far *websocket.Conn, in *incoming) {
	write := func(m received) bool {
		kind := websocket.MessageText
		if m.binary {
			kind = websocket.MessageBinary
		}
		err := far.Write(ctx, kind, m.data)
		s.account.give(m.cost())
		return err == nil
	}
	if in.first != nil && !write(*in.first) {
		return
	}
	in.first = nil // it would stay in memory
	for m := range in.messages {
		if !write(m) {
			return
		}
	}
	closed := websocket.CloseError{}
	if ctx.Err() != nil || !errors.As(in.err, &closed) {
		_ = far.CloseNow()
		return
	}
	_ = far.Close(closed.Code, closed.Reason) // the other end has gone, or goes
}

// back sends what comes from the other engine to the client, and closes the client's socket as the other engine has closed its own.
func (s *socket) back(ctx context.Context, far *websocket.Conn) {
	for {
		kind, data, err := far.Read(ctx)
		if err != nil {
			closed := websocket.CloseError{Code: websocket.StatusInternalError, Reason: "ws.downstream_closed"}
			if ctx.Err() != nil {
				closed.Reason = closeReason(errLeaving)
			} else {
				_ = errors.As(err, &closed) // else the other engine is lost
			}
			s.close(closed.Code, closed.Reason)
			return
		}
		n := int64(len(data))
		if !s.account.charge(n) {
			s.close(websocket.StatusInternalError, closeReason(errBusy))
			return
		}
		err = s.put(message{kind: kind, data: data})
		s.account.give(n)
		if err != nil {
			_ = s.ws.CloseNow() // the reader of the client's messages hears of it
			return
		}
	}
}
