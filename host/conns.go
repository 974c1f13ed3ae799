package host

import (
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/traces"
)

// An Event is a message on its way to a client.
type Event struct {
	Name string
	Body Raw // it must not be changed
}

// A Transport is the way to the client of a connection. Its methods are called by one
// goroutine at a time for what a turn sends, and must not wait: the transport
// cuts off a client that can't keep up. They must not call the actor.
type Transport interface {
	// Send sends an event. What can't be sent is lost.
	Send(e Event)
	// Close ends the transport: the connection is gone.
	Close(reason string)
}

// transports are those of hibernating connections: they stay when the actor sleeps.
type transports struct {
	mu   sync.Mutex
	of   map[string]map[conn.ID]attached  // by the actor  +checklocks:mu
	left map[string]map[conn.ID]time.Time // whose clients are away, and since when  +checklocks:mu
}

// An attached is a transport, and what takes it, and no later one, off its connection.
type attached struct {
	Transport
	detach func()
}

func (ts *transports) put(actor string, id conn.ID, t Transport, detach func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.of == nil {
		ts.of = map[string]map[conn.ID]attached{}
	}
	if ts.of[actor] == nil {
		ts.of[actor] = map[conn.ID]attached{}
	}
	ts.of[actor][id] = attached{t, detach}
	ts.forget(actor, id)
}

// attach gives a connection of an actor that wakes its transport back, unless its client
// was lost.
func (ts *transports) attach(actor string, n *conn.Conn) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.of[actor][n.ID()]
	if !ok {
		return nil
	}
	detach, err := n.Attach(t.Transport)
	if err != nil {
		return err
	}
	ts.of[actor][n.ID()] = attached{t.Transport, detach}
	return nil
}

// absent says since when the client of a connection is away, as far as that is known.
func (ts *transports) absent(actor string, id conn.ID) time.Time {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.left[actor][id]
}

// away returns since when a client of the actor is away, the one that has been so for
// longest; the zero time if all are there.
func (ts *transports) away(actor string) (first time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, at := range ts.left[actor] {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// leave takes a transport, if it is that one, off its connection, and notes since when the
// client is away.
func (ts *transports) leave(actor string, id conn.ID, t Transport, now time.Time) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	of := ts.of[actor][id]
	if of.Transport != t || t == nil {
		return false
	}
	of.detach()
	ts.remove(actor, id)
	if ts.left == nil {
		ts.left = map[string]map[conn.ID]time.Time{}
	}
	if ts.left[actor] == nil {
		ts.left[actor] = map[conn.ID]time.Time{}
	}
	ts.left[actor][id] = now
	return true
}

// +checklocks:ts.mu
func (ts *transports) forget(actor string, id conn.ID) {
	delete(ts.left[actor], id)
	if len(ts.left[actor]) == 0 {
		delete(ts.left, actor)
	}
}

// +checklocks:ts.mu
func (ts *transports) remove(actor string, id conn.ID) {
	delete(ts.of[actor], id)
	if len(ts.of[actor]) == 0 {
		delete(ts.of, actor)
	}
}

// take forgets a connection that is gone.
func (ts *transports) take(actor string, id conn.ID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.remove(actor, id)
	ts.forget(actor, id)
}

// drop closes all transports of an actor.
func (ts *transports) drop(actor, reason string) {
	ts.mu.Lock()
	all := ts.of[actor]
	delete(ts.of, actor)
	delete(ts.left, actor)
	ts.mu.Unlock()
	for _, t := range all {
		t.Close(reason)
	}
}

// A Conn is a connection of the actor, as a turn sees it: with its own changes, which land
// at the end of the turn.
type Conn struct {
	c *Context
	n *conn.Conn
}

// Conn returns the connection through which the turn was asked for, nil if it was asked
// for without one.
func (c *Context) Conn() *Conn {
	return c.FindConn(c.turn.conn)
}

// Connections returns the actor's connections, in the order of their ids, but for those that
// the turn has disconnected. It stands before the method of greenroom.Tx, whose changes the
// clients would not hear of.
func (c *Context) Connections() []*Conn {
	var all []*Conn
	for _, n := range c.life.conns.In(c.open.Batch()).Conns() {
		all = append(all, &Conn{c, n})
	}
	return all
}

// FindConn returns the connection with that id; nil without one.
func (c *Context) FindConn(id conn.ID) *Conn {
	if n, ok := c.life.conns.In(c.open.Batch()).Get(id); ok && id != "" {
		return &Conn{c, n}
	}
	return nil
}

// ID returns the connection's id.
func (n *Conn) ID() conn.ID { return n.n.ID() }

// Hibernates reports whether the connection stays when the actor sleeps.
func (n *Conn) Hibernates() bool { return !n.n.Ephemeral() }

// Parameters decodes what the client gave when it connected into what v points to.
func (n *Conn) Parameters(v any) error { return Raw(n.n.Parameters()).Decode(v) }

// State decodes what the actor keeps about the connection into what v points to, which
// stays as it is if that was never set.
func (n *Conn) State(v any) error {
	return Raw(n.c.life.conns.In(n.c.open.Batch()).State(n.n)).Decode(v)
}

// SetState replaces what the actor keeps about the connection.
func (n *Conn) SetState(v any) error {
	if err := n.c.check(); err != nil {
		return err
	}
	r, err := Encode(v)
	if err != nil {
		return err
	}
	if len(r) == 0 {
		r = undefined
	}
	return n.c.life.conns.In(n.c.Batch()).SetState(n.n, r)
}

// Subscribe has the connection get the events of that name that the actor broadcasts.
func (n *Conn) Subscribe(event string) error { return n.subscribe(event, true) }

// Unsubscribe undoes Subscribe.
func (n *Conn) Unsubscribe(event string) error { return n.subscribe(event, false) }

func (n *Conn) subscribe(event string, on bool) error {
	if err := n.c.check(); err != nil {
		return err
	}
	tx := n.c.life.conns.In(n.c.Batch())
	if on {
		return tx.Subscribe(n.n, event)
	}
	return tx.Unsubscribe(n.n, event)
}

// Send sends an event to this connection's client, when the turn is durable. Without a
// client, while it is away, it is lost.
func (n *Conn) Send(event string, v any) error { return n.c.emit(n.n, event, v) }

// Disconnect ends the connection, with the turn; Type.Disconnect is called now.
func (n *Conn) Disconnect(reason string) error { return n.c.disconnect(n.n, reason) }

// Broadcast sends an event to all connections that have subscribed to it, when the turn
// is durable.
func (c *Context) Broadcast(event string, v any) error { return c.emit(nil, event, v) }

// An emission is an event to be sent: to one connection, or to those that have subscribed.
type emission struct {
	to    *conn.Conn
	event Event
}

func (c *Context) emit(to *conn.Conn, name string, v any) error {
	if err := c.check(); err != nil {
		return err
	}
	r, err := Encode(v)
	if err != nil {
		return err
	}
	c.events = append(c.events, emission{to, Event{name, r}})
	switch {
	case c.Span() == nil:
	case to == nil:
		c.Span().Event(eventMessageBroadcast, traces.String(keyEventName, name))
	default:
		c.connEvent(eventMessageSend, to, traces.String(keyEventName, name))
	}
	return nil
}

// address finds the receivers of the turn's events: the connections that are there when it lands.
func (c *Context) address() {
	for _, e := range c.events {
		to := []*conn.Conn{e.to}
		if e.to == nil {
			to = c.life.conns.Subscribers(nil, e.event.Name)
		}
		for _, n := range to {
			if t, ok := n.Transport().(Transport); ok {
				c.out = append(c.out, func() { t.Send(e.event) })
			}
		}
	}
}

// disconnect stages that a connection goes.
func (c *Context) disconnect(n *conn.Conn, reason string) error {
	if err := c.check(); err != nil {
		return err
	}
	if slices.Contains(c.parted, n) {
		return nil
	}
	if n.Gone() {
		return ErrNoConn
	}
	c.parted = append(c.parted, n) // so the hook may ask for it again
	if fn := c.life.kind.Disconnect; fn != nil {
		err := c.hook(spanOnDisconnect, func() error { return fn(c, &Conn{c, n}, reason) })
		if err != nil {
			c.parted = slices.DeleteFunc(c.parted, func(o *conn.Conn) bool { return o == n })
			return err
		}
	}
	c.connEvent(eventDisconnect, n)
	if err := c.life.conns.In(c.Batch()).Disconnect(n); err != nil {
		return err
	}
	c.hangUp(n, reason)
	return nil
}

// hangUp has the transport of a connection that goes closed when that is durable.
func (c *Context) hangUp(n *conn.Conn, reason string) {
	l, t := c.life, n.Transport()
	c.AfterCommit(func() {
		l.host.away.take(l.name, n.ID())
		if n.Ephemeral() {
			l.hold(-1)
		}
		if t, ok := t.(Transport); ok {
			t.Close(reason)
		}
	})
}

// restoredReason is what clients are told whose connections end because their actor was restored.
const restoredReason = "the actor was restored"
