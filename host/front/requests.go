package front

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
)

// read takes the client's requests until the socket is closed, and returns why it was. It
// waits for nothing else, so that pings are answered while an action runs.
func (c *client) read() error {
	for {
		r, err := c.receive(false)
		switch {
		case errors.Is(err, errMessage):
			c.finish(closeBad, host.Message(err))
			continue // until it is closed
		case err != nil:
			return err
		}
		c.take(r)
	}
}

// take puts a request behind those that wait. They are done one after the other, so that
// they reach the actor in the order in which the client has sent them.
func (c *client) take(r *request) {
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
				c.finish(websocket.StatusGoingAway, shuttingDown)
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
func (c *client) do(r *request) {
	ctx, cancel := context.WithTimeout(c.ctx, c.front.opts.CallTimeout)
	defer cancel()
	var result host.Raw
	var replayed bool
	var err error
	h, a, id := c.front.host, c.actor, c.joined.ID
	switch r.Type {
	case typeCall:
		if ctx, err = c.admit(ctx, &Access{Kind: AccessCall, Actor: a, Action: r.Action}); err == nil {
			result, replayed, err = c.call(ctx, r)
		}
	case typeSubscribe:
		if ctx, err = c.admit(ctx, &Access{Kind: AccessSubscribe, Actor: a, Event: r.Event}); err == nil {
			err = h.Subscribe(ctx, a, id, r.Event, true)
		}
	case typeUnsubscribe:
		err = h.Subscribe(ctx, a, id, r.Event, false)
	case typeConnect, typeResume:
		err = errConnected
	default:
		err = errMessage
	}
	if err != nil {
		c.front.note(ctx, r.Type, a.String(), err)
		c.replyError(r.ID, err)
		if errors.Is(err, actorstore.ErrInUse) || errors.Is(err, actorstore.ErrFenced) {
			// Its events are sent elsewhere now, and the client may find it there.
			c.finish(websocket.StatusTryAgainLater, "the actor is at another host; come back")
		}
		return
	}
	c.reply(&response{Type: typeResult, ID: r.ID, Body: value(result), Replayed: replayed})
}

// call calls the action that a request names.
func (c *client) call(ctx context.Context, r *request) (result host.Raw, replayed bool, err error) {
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
		s.finish(websocket.StatusGoingAway, shuttingDown)
	}
}
