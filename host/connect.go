package host

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
)

// A Join is a client that wants to be connected to an actor.
type Join struct {
	Actor Address
	// Transport is the way to the client. It is the host's until it is closed or the
	// connection is disconnected.
	Transport Transport
	// Parameters is what the client gave: one value in CBOR.
	Parameters Raw
	// Hibernate lets the actor sleep while the client is connected. Without it the
	// connection keeps the actor awake, and is never stored.
	Hibernate bool
	// Path and Headers are those of the request, of a connection that hibernates. An empty
	// path is stored as "/".
	Path    string
	Headers []conn.Header
}

// A Joined is a connection that a client has.
type Joined struct {
	ID conn.ID
	// Gateway and Request are by what the client finds its connection again
	// (Host.Rejoin): random, and no secret by themselves.
	Gateway conn.GatewayID
	Request conn.RequestID
}

// Join makes a connection, which is durable when Join returns, if it hibernates: after
// Type.Connect has accepted it, whose error Join returns otherwise. The transport is not
// closed then. The connection has the caller of the context (WithCaller). An actor that doesn't exist is created, but of a type with MustCreate:
// ErrNoActor.
func (h *Host) Join(ctx context.Context, j *Join) (Joined, error) {
	var joined Joined
	if err := checkArgs(j.Parameters); err != nil {
		return joined, err
	}
	from := CallerOf(ctx)
	t := newTurn(spanOnConnect, func(c *Context) (err error) {
		joined, err = c.conns.join(j, from)
		return err
	})
	err := h.turn(ctx, j.Actor, &birth{}, t)
	if errors.Is(err, ErrUnknownOutcome) {
		go j.undo(h, &joined)
	}
	if err != nil {
		return Joined{}, err
	}
	return joined, nil
}

// undo disconnects a client that wasn't told that it is connected, if it is: in a turn
// behind that which has, or has not, filled joined.
func (j *Join) undo(h *Host, joined *Joined) {
	t := newTurn(spanOnDisconnect, func(c *Context) error {
		if joined.ID == "" {
			return nil
		}
		n, ok := c.life.conns.Get(joined.ID)
		if !ok {
			h.away.take(c.life.name, joined.ID)
			return nil
		}
		return c.conns.disconnect(n, "the client left while it was being connected")
	})
	t.must = true
	if err := h.turn(h.ctx, j.Actor, nil, t); err != nil {
		h.log.Warn("host: disconnect a client that left", slog.String("actor", j.Actor.String()), slog.Any("error", err))
	}
}

// Rejoin gives a hibernating connection, which a client finds by what Join told it, a new
// transport; the old one, if there is one, is closed. Type.Connect is not called.
// ErrNoConn says that the connection is gone, or that it has another caller than the context.
func (h *Host) Rejoin(ctx context.Context, a Address, of Joined, to Transport) (conn.ID, error) {
	var id conn.ID
	from := CallerOf(ctx)
	err := h.turn(ctx, a, nil, newTurn(spanReconnect, func(c *Context) error {
		l := c.life
		n, ok := l.conns.Find(of.Gateway, of.Request)
		if !ok || !from.mayTake(n) {
			return ErrNoConn
		}
		id = n.ID()
		old, _ := n.Transport().(Transport)
		detach, err := n.Attach(to)
		if err != nil {
			return err
		}
		l.host.away.put(l.name, id, to, detach)
		if old != nil && old != to {
			c.AfterCommit(func() { old.Close("the client has connected anew") })
		}
		return nil
	}))
	switch {
	case noActor(err):
		return "", ErrNoConn
	case err != nil:
		return "", err // and id is not to be looked at: the turn may still be running
	}
	return id, nil
}

// Away says that the transport of a hibernating connection failed, and that
// its client may come back until Options.AwayTimeout is over. It doesn't wake the actor
// before that.
func (h *Host) Away(a Address, id conn.ID, t Transport) {
	name := a.String()
	if !h.away.leave(name, id, t, h.clock()) {
		return
	}
	if d := h.opts.AwayTimeout; d > 0 {
		defer h.alarms.wakeFor(name, h.clock().Add(d))
	}
	h.mu.Lock()
	l := h.lives[name]
	h.mu.Unlock()
	if l == nil || !l.enterAwake() {
		return
	}
	defer l.leave()
	l.conns.expect()
}

// Leave disconnects a connection: Type.Disconnect is called, and its record is gone for
// good when Leave returns nil. ErrNoConn says that it was gone before. It is never
// ErrOverloaded: it waits, as the context says.
func (h *Host) Leave(ctx context.Context, a Address, id conn.ID, reason string) error {
	say := func() (*request, error) { return &request{Kind: requestLeave, Actor: a, Conn: id, Text: reason}, nil }
	_, err := h.ask(ctx, a, say, func(ctx context.Context) error {
		t := newTurn(spanOnDisconnect, func(c *Context) error {
			n, ok := c.life.conns.Get(id)
			if !ok {
				return ErrNoConn
			}
			return c.conns.disconnect(n, reason)
		})
		t.conn, t.must = id, true
		return h.turn(ctx, a, nil, t)
	})
	if noActor(err) {
		err = ErrNoConn
	}
	return err
}

// Disconnect ends a connection as Leave does, of the actor with that id. Errors: those of Leave; greenroom.ErrNotFound and ErrNoType, as those
// of Wake.
func (h *Host) Disconnect(ctx context.Context, id actorstore.ID, c conn.ID, reason string) error {
	a, err := visitor{h}.find(ctx, id)
	if err != nil {
		return err
	}
	return h.Leave(ctx, a, c, reason)
}

// Subscribe subscribes a connection to the events of a name, which Type.Subscribe may refuse, or ends that if on is false.
func (h *Host) Subscribe(ctx context.Context, a Address, id conn.ID, event string, on bool) error {
	say := func() (*request, error) {
		return &request{Kind: requestSubscribe, Actor: a, Conn: id, Text: event, On: on}, nil
	}
	_, err := h.ask(ctx, a, say, func(ctx context.Context) error {
		t := newTurn(spanSubscribe, func(c *Context) error {
			n := c.Conn()
			if n == nil {
				return ErrNoConn
			}
			if fn := c.life.kind.Subscribe; on && fn != nil {
				if err := fn(c, n, event); err != nil {
					return err
				}
			}
			return n.subscribe(event, on)
		})
		t.conn, t.from = id, CallerOf(ctx)
		return h.turn(ctx, a, nil, t)
	})
	return err
}

// join makes a connection.
func (s *connChanges) join(j *Join, from *Caller) (Joined, error) {
	c := s.c
	l := c.life
	headers, err := withCaller(j.Headers, from)
	if err != nil {
		return Joined{}, err
	}
	info := conn.Info{Ephemeral: !j.Hibernate, Path: j.Path, Headers: headers, Parameters: j.Parameters}
	if j.Hibernate {
		if info.Path == "" {
			info.Path = "/"
		}
		_, _ = rand.Read(info.Gateway[:]) // it never fails
		_, _ = rand.Read(info.Request[:])
	}
	n, err := l.conns.In(c.Batch()).Create(info)
	if err != nil {
		return Joined{}, err
	}
	detach, err := n.Attach(j.Transport)
	if err != nil {
		return Joined{}, err
	}
	c.turn.conn = n.ID()
	if fn := l.kind.Connect; fn != nil {
		if err := fn(c, &Conn{c, n}); err != nil {
			return Joined{}, err
		}
	}
	connEvent(c.Span(), eventConnect, n)
	if j.Hibernate {
		l.host.away.put(l.name, n.ID(), j.Transport, detach)
		c.undo = append(c.undo, func() { l.host.away.take(l.name, n.ID()) })
	} else {
		l.hold(1)
		c.undo = append(c.undo, func() { l.hold(-1) })
	}
	return Joined{n.ID(), info.Gateway, info.Request}, nil
}
