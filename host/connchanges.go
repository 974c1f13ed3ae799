package host

import (
	"slices"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/traces"
)

// connChanges are what a turn does to the actor's connections, and sends to their clients.
type connChanges struct {
	c      *Context
	parted []*conn.Conn // that the turn disconnects
	events []emission   // to be sent when the turn has landed
}

// An emission is an event to be sent: to one connection, or to those that have subscribed.
type emission struct {
	to    *conn.Conn
	event Event
}

func (s *connChanges) emit(to *conn.Conn, name string, v any) error {
	c := s.c
	if err := c.check(); err != nil {
		return err
	}
	r, err := Encode(v)
	if err != nil {
		return err
	}
	s.events = append(s.events, emission{to, Event{name, r}})
	switch {
	case c.Span() == nil:
	case to == nil:
		c.Span().Event(eventMessageBroadcast, traces.String(keyEventName, name))
	default:
		connEvent(c.Span(), eventMessageSend, to, traces.String(keyEventName, name))
	}
	return nil
}

// address finds the receivers of the turn's events: the connections that are there when it lands.
func (s *connChanges) address() {
	c := s.c
	for _, e := range s.events {
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
func (s *connChanges) disconnect(n *conn.Conn, reason string) error {
	c := s.c
	if err := c.check(); err != nil {
		return err
	}
	if slices.Contains(s.parted, n) {
		return nil
	}
	if n.Gone() {
		return ErrNoConn
	}
	s.parted = append(s.parted, n) // so the hook may ask for it again
	if fn := c.life.kind.Disconnect; fn != nil {
		err := c.hook(spanOnDisconnect, func() error { return fn(c, &Conn{c, n}, reason) })
		if err != nil {
			s.parted = slices.DeleteFunc(s.parted, func(o *conn.Conn) bool { return o == n })
			return err
		}
	}
	connEvent(c.Span(), eventDisconnect, n)
	if err := c.life.conns.In(c.Batch()).Disconnect(n); err != nil {
		return err
	}
	s.hangUp(n, reason)
	return nil
}

// hangUp closes the transport of a connection that goes, once that is durable.
func (s *connChanges) hangUp(n *conn.Conn, reason string) {
	c := s.c
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

// A Conn is a connection of the actor, as a turn sees it: with its own changes, which land
// at the end of the turn.
type Conn struct {
	c *Context
	n *conn.Conn
}

// ID returns the connection's id.
func (n *Conn) ID() conn.ID { return n.n.ID() }

// Hibernates reports whether the connection stays when the actor sleeps.
func (n *Conn) Hibernates() bool { return !n.n.Ephemeral() }

// Caller returns the caller that has made the connection, which stays as it was then, also when the connection hibernates; nil if nothing was said about it.
func (n *Conn) Caller() *Caller { return callerOfConn(n.n) }

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

// Subscribe subscribes the connection to the events of that name that the actor broadcasts.
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
func (n *Conn) Send(event string, v any) error { return n.c.conns.emit(n.n, event, v) }

// Disconnect ends the connection, with the turn; Type.Disconnect is called now.
func (n *Conn) Disconnect(reason string) error { return n.c.conns.disconnect(n.n, reason) }
