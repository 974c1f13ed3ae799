package front

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// read takes the client's requests until the socket is closed, and returns why it was. It
// waits for nothing else, so that pings are answered while an action runs.
func (c *client) read() error {
	for {
		r, err := c.receive(false)
		switch {
		case errors.Is(err, errMessage):
			c.finish(wire.CloseBad, host.Message(err))
			continue // until it is closed
		case err != nil:
			return err
		}
		c.take(r)
	}
}

// take puts a request behind those that wait. They are done one after the other, so that
// they reach the actor in the order in which the client has sent them.
func (c *client) take(r *wire.Request) {
	c.mu.Lock()
	c.heard = time.Now()
	var err error
	switch {
	case c.end != nil:
		c.mu.Unlock()
		return // the client is gone
	case c.draining:
		err = host.ErrClosed
	case len(c.pending) >= c.front.opts.MaxPending:
		err = errPending
	default:
		c.pending = append(c.pending, *r)
		if !c.serving {
			c.serving = true
			c.active.Go(c.serve)
		}
	}
	c.mu.Unlock()
	if err != nil {
		c.replyError(r.ID, err)
	}
}

// serve does requests until none waits.
func (c *client) serve() {
	for {
		c.mu.Lock()
		if len(c.pending) == 0 {
			c.pending, c.serving = nil, false
			drained := c.draining
			c.mu.Unlock()
			if drained {
				c.finish(websocket.StatusServiceRestart, shuttingDown)
			}
			return
		}
		r := c.pending[0]
		c.pending = slices.Delete(c.pending, 0, 1)
		c.mu.Unlock()
		c.do(&r)
	}
}

// shuttingDown is why sockets are closed by Shutdown.
const shuttingDown = "the server is shutting down; come back"

// do does one request, and answers it.
func (c *client) do(r *wire.Request) {
	if r.Type == wire.TypeMoved {
		c.resume()
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.front.opts.CallTimeout)
	defer cancel()
	var done wire.Response
	ctx, err := c.admitted(ctx, r)
	if err == nil {
		err = c.follow(ctx, func(ctx context.Context) error { return c.near(ctx, r, &done) }, func(ctx context.Context, l *link) error {
			got, err := l.ask(ctx, c, r)
			if err == nil {
				done.Body, done.Replayed = got.Body, got.Replayed
			}
			return err
		})
	}
	if err != nil {
		c.front.note(ctx, r.Type, c.actor.String(), err)
		c.replyError(r.ID, err)
		if errors.Is(err, actorstore.ErrInUse) || errors.Is(err, actorstore.ErrFenced) {
			// Its events are sent elsewhere now, and the client may find it there.
			c.finish(websocket.StatusTryAgainLater, "the actor is at another host; come back")
		}
		return
	}
	done.Type, done.ID = wire.TypeResult, r.ID
	c.reply(&done)
}

// admitted returns a context for a request, with its caller as it is now.
func (c *client) admitted(ctx context.Context, r *wire.Request) (context.Context, error) {
	if c.carried {
		if r.Caller == nil {
			return ctx, nil
		}
		from := &host.Caller{}
		if err := json.Unmarshal(r.Caller, from); err != nil {
			return ctx, errMessage
		}
		return host.WithCaller(ctx, from), nil
	}
	switch r.Type {
	case wire.TypeCall:
		return c.admit(ctx, &Access{Kind: AccessCall, Actor: c.actor, Action: r.Action})
	case wire.TypeSubscribe:
		return c.admit(ctx, &Access{Kind: AccessSubscribe, Actor: c.actor, Event: r.Event})
	case wire.TypeUnsubscribe:
		return ctx, nil
	case wire.TypeConnect, wire.TypeResume:
		return ctx, errConnected
	}
	return ctx, errMessage
}

// near does a request at this host.
func (c *client) near(ctx context.Context, r *wire.Request, done *wire.Response) (err error) {
	switch r.Type {
	case wire.TypeCall:
		var result host.Raw
		result, done.Replayed, err = c.call(ctx, r)
		done.Body = wire.Value(result)
	case wire.TypeSubscribe, wire.TypeUnsubscribe:
		err = c.front.host.Subscribe(ctx, c.actor, c.joined.ID, r.Event, r.Type == wire.TypeSubscribe)
	default:
		err = errMessage
	}
	return err
}

// call calls the action that a request names.
func (c *client) call(ctx context.Context, r *wire.Request) (result host.Raw, replayed bool, err error) {
	call := &host.Call{Actor: c.actor, Action: r.Action, Args: host.Raw(r.Args), Conn: c.joined.ID, Replayed: &replayed}
	if r.IdempotencyKey != nil {
		if call.IdempotencyKey = *r.IdempotencyKey; call.IdempotencyKey == "" {
			return nil, false, host.ErrIdempotencyKey
		}
	}
	result, err = c.front.do(ctx, call)
	return result, replayed, err
}

// admit returns a context for what the client asks for, with its caller as it is now.
func (c *client) admit(ctx context.Context, a *Access) (context.Context, error) {
	if c.asks == nil {
		return ctx, nil
	}
	from, err := c.front.guard.admit(ctx, c.asks, a)
	if err != nil {
		return ctx, err
	}
	return withCaller(ctx, from), nil
}

// drain closes the socket in good order when the requests that it has taken are done.
func (s *socket) drain() {
	s.mu.Lock()
	s.draining = true
	busy := s.serving
	s.mu.Unlock()
	if !busy {
		s.finish(websocket.StatusServiceRestart, shuttingDown)
	}
}
