package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/conn"
)

// A client of a hibernating connection may be away for a while: its network was lost, or
// the host was restarted. When it doesn't come back in time the connection is
// disconnected, for which the actor is woken: the time is one of its alarm clock's. It
// counts from when the client was lost, or from the start of the host if that is later,
// and so nothing of it needs to be stored.

// connections are those of an actor that is awake, and the clock for those whose clients are away.
type connections struct {
	*conn.Set // nil until they are open
	life      *life
	absence   *alarm.Source // rings when a client has been away for too long; nil if that is for ever
	expecting sync.Mutex    // held to set absence
}

// lostAt returns since when the client of a connection is away.
func (cs *connections) lostAt(n *conn.Conn) time.Time {
	at := cs.life.host.away.absent(cs.life.name, n.ID())
	if at.Before(cs.life.host.started) {
		at = cs.life.host.started
	}
	return at
}

// absentees returns the hibernating connections without a client that are overdue, and
// when the next one will be; the zero time for never.
func (cs *connections) absentees() (overdue []*conn.Conn, next time.Time) {
	now := cs.life.host.clock()
	for _, n := range cs.Conns() {
		if n.Ephemeral() || n.Transport() != nil {
			continue
		}
		switch at := cs.lostAt(n).Add(cs.life.host.opts.AwayTimeout); {
		case !at.After(now):
			overdue = append(overdue, n)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return overdue, next
}

// expect sets the clock to when the first client must be back.
func (cs *connections) expect() {
	if cs.absence == nil {
		return
	}
	// What was looked up before must not be set after what was looked up later.
	cs.expecting.Lock()
	defer cs.expecting.Unlock()
	overdue, next := cs.absentees()
	if len(overdue) > 0 {
		next = cs.life.host.clock()
	}
	cs.absence.Set(next)
}

// missed schedules waking an actor that has left memory, for a client that was lost while it did,
// of which its clock has heard nothing. If the clock has a time for another client, the actor finds
// this one, too, when it wakes for that.
func (cs *connections) missed() {
	if cs.absence == nil || !cs.absence.At().IsZero() {
		return
	}
	l := cs.life
	if at := l.host.away.away(l.name); !at.IsZero() {
		l.host.alarms.wakeFor(l.name, at.Add(l.host.opts.AwayTimeout))
	}
}

// miss is rung by the clock: it disconnects those whose clients didn't come back.
func (cs *connections) miss() {
	l := cs.life
	err := l.inward(context.WithoutCancel(l.ctx), newTurn(spanOnDisconnect, func(c *Context) error {
		overdue, _ := cs.absentees()
		for _, n := range overdue {
			if err := c.conns.disconnect(n, "the client didn't come back"); err != nil {
				return err
			}
		}
		return nil
	}))
	switch {
	case err == nil:
		cs.expect()
	case errors.Is(err, ErrNotAwake), errors.Is(err, errAgain):
		cs.absence.Hold(l.host.clock())
	default:
		l.report("disconnect absent clients", err)
		cs.absence.Set(l.host.clock().Add(time.Minute))
	}
}

// open gives the connections the transports that their clients still have.
func (cs *connections) open() (err error) {
	l := cs.life
	cs.Set, err = l.door.Connections(l.ctx)
	if err != nil {
		return err
	}
	for _, c := range cs.Conns() {
		if err := l.host.away.attach(l.name, c); err != nil {
			return err
		}
	}
	if l.host.opts.AwayTimeout > 0 {
		cs.absence = l.clock.Lasting("host connections", cs.miss)
	}
	return nil
}

// missing says whether there are hibernating connections without a client here.
func (cs *connections) missing() bool {
	for _, n := range cs.Conns() {
		if !n.Ephemeral() && n.Transport() == nil {
			return true
		}
	}
	return false
}

// ephemeral returns the connections that end when the actor leaves memory.
func (cs *connections) ephemeral() (ns []*conn.Conn) {
	for _, n := range cs.Conns() {
		if n.Ephemeral() {
			ns = append(ns, n)
		}
	}
	return ns
}

// disconnectEphemeral ends them, in a turn.
func (cs *connections) disconnectEphemeral(c *Context) error {
	reason := "the actor goes to another version"
	if c.life.host.closing() {
		reason = "the host is shutting down"
	}
	for _, n := range cs.ephemeral() {
		if err := c.conns.disconnect(n, reason); err != nil {
			return err
		}
	}
	return nil
}

// close closes the connections, and ends the transports of those that don't outlive the stay.
func (cs *connections) close(ctx context.Context) error {
	var held []Transport
	for _, n := range cs.ephemeral() {
		if t, ok := n.Transport().(Transport); ok {
			held = append(held, t)
		}
	}
	err := cs.Close(ctx)
	for _, t := range held {
		t.Close("the actor has left this host")
	}
	return err
}
