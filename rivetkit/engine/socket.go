package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/remote"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A socket is the WebSocket of a client.
type socket struct {
	outbox
	e      *core
	answer chan error // of one: whether the actor takes it; set for each attempt
}

// maxKept bounds a message over a socket that hibernates: it must be stored.
const maxKept = maxValue - 64

// subprotocol is the one that is chosen if a client offers it.
const subprotocol = "rivet"

// isWebSocket reports whether a request wants to become a WebSocket.
func isWebSocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool { return strings.EqualFold(v, "websocket") })
}

// acceptSocket takes the WebSocket of a request, whose origin the gateway has looked at. If it fails the request is answered.
func acceptSocket(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
}

// lastWords is how long the client of an engine that is closed may take to hear that its socket is closed.
const lastWords = time.Second

// serveSocket connects a client's WebSocket with an actor, here or at another engine. If it returns an error the request isn't answered.
func serveSocket(e *core, w http.ResponseWriter, r *http.Request, info *actorInfo, target string) error {
	leave, err := e.sockets.admit(remote.Addr(r))
	if err != nil {
		return err
	}
	defer leave()
	ctx, done, err := e.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx = withForwarded(ctx, r.Context())
	if isForwarded(ctx) { // an engine that asks for an actor that isn't here is told before the socket is open
		a, err := enter(ctx, e, info.ID, false)
		if err != nil {
			return err
		}
		defer a.leave()
		e.mu.Lock()
		err = e.pools.refusal(a)
		e.mu.Unlock()
		if err != nil {
			e.fleet.gives(ctx, a)
			return err
		}
	}
	headers := headersOf(r)
	ws, err := acceptSocket(w, r)
	if err != nil {
		return nil // it is answered
	}
	ws.SetReadLimit(e.opts.MaxBody)
	budget := e.budget.open(remote.Addr(r), info.ID, func() { go func() { _ = ws.CloseNow() }() })
	defer budget.close()
	s := &socket{outbox: outbox{ws: ws, log: e.log, limit: e.opts.MaxQueued, account: budget}, e: e}
	reading, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cut) })() // to stop reading ends the connection, and the client is to hear why
	in := &incoming{ctx: reading, ws: ws, account: budget, messages: make(chan received)}
	go in.read()
	var far *websocket.Conn
	err = follower{e, info, false}.follow(ctx, func(a *actor) error {
		var t *tunnel
		err := repeat(ctx, func() (err error) {
			t, err = s.attempt(ctx, a, in, rp.SocketOpen{Actor: a.text, Path: target, Headers: headers})
			return err
		})
		if err == nil {
			s.serve(ctx, t, in)
		}
		return err
	}, func(to *actorstore.HostInfo) (err error) {
		far, err = e.fleet.dial(ctx, r, info.ID, to)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		s.close(websocket.StatusInternalError, closeReason(errLeaving))
	case err != nil:
		s.close(websocket.StatusInternalError, closeReason(err))
	case far != nil:
		s.relay(ctx, far, in)
	}
	for range in.messages { // until the client has heard of its end
	}
	_ = ws.CloseNow() // reading has failed: that alone leaves the connection open
	return nil
}

// attempt opens a tunnel to the actor, and waits until the actor takes the socket.
func (s *socket) attempt(ctx context.Context, a *actor, in *incoming, open rp.SocketOpen) (*tunnel, error) {
	s.answer = make(chan error, 1)
	t, err := openTunnel(ctx, a, s, open)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(s.e.opts.AnswerTimeout)
	defer late.Stop()
	messages := in.messages
	if in.first != nil {
		messages = nil
	}
	for {
		select {
		case err := <-s.answer:
			return t, err
		case m, ok := <-messages:
			if !ok {
				s.hangUp(t, in.err)
				return nil, in.err
			}
			in.first, messages = &m, nil
		case <-late.C:
			s.hangUp(t, errNoAnswer)
			return nil, errNoAnswer
		case <-ctx.Done():
			s.hangUp(t, ctx.Err())
			return nil, ctx.Err()
		}
	}
}

// serve takes what the client sends until it goes.
func (s *socket) serve(ctx context.Context, t *tunnel, in *incoming) {
	if in.first != nil && !s.pass(ctx, t, *in.first) {
		return
	}
	in.first = nil // it would stay in memory
	for m := range in.messages {
		if !s.pass(ctx, t, m) {
			return
		}
		s.account.drain(ctx, int64(s.e.opts.MaxPending))
	}
	s.hangUp(t, in.err)
}

// pass passes a message on, and waits while too much waits for the actor. It returns false at the end of the tunnel.
func (s *socket) pass(ctx context.Context, t *tunnel, m received) bool {
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !s.has(t):
		return false
	case !t.hibernates:
		n := m.cost()
		s.account.lend(n)
		t.a.used.turn()
		t.sendThen(rp.SocketMessage{Data: m.data, Binary: m.binary}, func() { s.account.repaid(n, false) })
		return true
	case len(m.data) > maxKept:
		t.fail(errTooLong)
		return false
	case !s.awaitRoom(ctx, t, len(m.data)):
		return false
	}
	t.keep(rivetstore.Message{Binary: m.binary, Data: m.data}, s.account)
	if a := t.a; a.phase == asleep && !a.wake() {
		e.alarms.ring(a)
	}
	return true
}

// has reports whether t is open, and the socket is at its end.
//
// +checklocks:s.e.mu
func (s *socket) has(t *tunnel) bool { return t.client == client(s) && t.isOpen() }

// awaitRoom waits until n bytes more may be kept for the actor. A socket for which nothing is kept has room for longer than one
// that has much. It returns false at the end of the tunnel, which comes when it has waited for too long: nothing is read from the client
// meanwhile, which may have gone.
//
// +checklocks:s.e.mu
func (s *socket) awaitRoom(ctx context.Context, t *tunnel, n int) bool {
	full := func() bool {
		o, kept := &s.e.opts, t.a.mail.kept+n
		return t.bytes > 0 && (t.bytes+n > o.MaxPending || kept > o.MaxKept) || kept > 2*o.MaxKept && t.a.mail.kept > 0
	}
	if !full() {
		return true
	}
	late := time.NewTimer(s.e.opts.AnswerTimeout)
	defer late.Stop()
	for full() {
		room, isLate := t.a.mail.room, false
		s.e.mu.Unlock()
		select {
		case <-room:
		case <-late.C:
			isLate = true
		case <-ctx.Done():
		}
		s.e.mu.Lock()
		if ctx.Err() != nil || !s.has(t) {
			return false
		}
		if isLate {
			t.leave(errNoAnswer)
			t.part()
			return false
		}
	}
	return true
}

// hangUp follows the end of the client.
func (s *socket) hangUp(t *tunnel, err error) {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if !t.isOpen() || t.e.closed {
		return
	}
	t.client = nil
	end := rp.ClientClose{}
	if code := websocket.CloseStatus(err); code > 0 && code != websocket.StatusNoStatusRcvd && code != websocket.StatusAbnormalClosure {
		end.Code = rp.Some(uint16(code))
	}
	if !t.opened {
		if t.a.told {
			t.send(end)
		}
		t.remove()
		return
	}
	t.closing, t.ending = true, end
	t.part()
}

// sent implements client.
func (s *socket) sent() {}

// fail implements client.
func (s *socket) fail(t *tunnel, err error) {
	reason := closeReason(err)
	if errors.Is(err, errStopped) || errors.Is(err, errUnknownOutcome) {
		reason = "ws.downstream_closed"
	}
	s.finish(t, err, websocket.StatusInternalError, reason)
}

// finish ends the socket, or the attempt to have the actor take it.
//
// +checklocks:s.e.mu
func (s *socket) finish(t *tunnel, err error, code websocket.StatusCode, reason string) {
	if !t.opened {
		s.answer <- err
		return
	}
	t.a.said.do(func() { s.close(code, reason) })
}

// take implements client.
func (s *socket) take(t *tunnel, m rp.FromActor) {
	switch b := m.Body.(type) {
	case rp.SocketAccept:
		if !t.opened {
			t.opened, t.hibernates = true, b.CanHibernate
			t.note()
			s.answer <- nil
		}
	case rp.SocketMessage:
		if !t.opened {
			return
		}
		kind := websocket.MessageText
		if b.Binary {
			kind = websocket.MessageBinary
		}
		t.a.said.send(&s.outbox, message{kind: kind, data: b.Data, size: len(b.Data)})
	case rp.ActorClose:
		if b.Hibernate && t.hibernates {
			return
		}
		code := websocket.StatusNormalClosure
		if b.Code.Set {
			code = websocket.StatusCode(b.Code.Value)
		}
		t.client = nil
		t.remove()
		s.finish(t, errUnavailable, code, b.Reason.Value)
	default:
		s.e.log.Debug("engine: a part of an answer for a socket", slog.String("id", t.id.String()))
	}
}

// refuse answers a request that reaches no actor. A WebSocket is taken, and closed: of one that is refused before, a
// browser sees nothing.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !isWebSocket(r) {
		writeError(w, err)
		return
	}
	ws, fail := acceptSocket(w, r)
	if fail != nil {
		return // it is answered
	}
	_ = ws.Close(websocket.StatusInternalError, closeReason(err))
}
