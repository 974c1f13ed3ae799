package host

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/conn"
)

// A client of a hibernating connection may be away for a while: its network was lost, or
// the host was restarted. When it doesn't come back in time the connection is
// disconnected, for which the actor is woken: the time is one of its alarm clock's. It
// counts from when the client was lost, or from the start of the host if that is later,
// and so nothing of it needs to be stored.

// lostAt returns since when the client of a connection is away.
func (l *life) lostAt(n *conn.Conn) time.Time {
	at := l.host.away.absent(l.name, n.ID())
	if at.Before(l.host.started) {
		at = l.host.started
	}
	return at
}

// absentees returns the hibernating connections without a client that are overdue, and
// when the next one will be; the zero time for never.
func (l *life) absentees() (overdue []*conn.Conn, next time.Time) {
	now := l.host.clock()
	for _, n := range l.conns.Conns() {
		if n.Ephemeral() || n.Transport() != nil {
			continue
		}
		switch at := l.lostAt(n).Add(l.host.opts.AwayTimeout); {
		case !at.After(now):
			overdue = append(overdue, n)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return overdue, next
}

// expect sets the clock to when the first client must be back.
func (l *life) expect() {
	if l.absence == nil {
		return
	}
	// What was looked up before must not be set after what was looked up later.
	l.expecting.Lock()
	defer l.expecting.Unlock()
	overdue, next := l.absentees()
	if len(overdue) > 0 {
		next = l.host.clock()
	}
	l.absence.Set(next)
}

// missed has an actor that has left memory woken for a client that was lost while it did,
// of which its clock has heard nothing. If the clock has another one's time, the actor
// finds this one, too, when it wakes for that.
func (l *life) missed() {
	if l.absence == nil || !l.absence.At().IsZero() {
		return
	}
	if at := l.host.away.away(l.name); !at.IsZero() {
		l.host.alarms.wakeFor(l.name, at.Add(l.host.opts.AwayTimeout))
	}
}

// missConns is rung by the clock: it disconnects those whose clients didn't come back.
func (l *life) missConns() {
	err := l.inward(context.WithoutCancel(l.ctx), newTurn(spanOnDisconnect, func(c *Context) error {
		overdue, _ := l.absentees()
		for _, n := range overdue {
			if err := c.disconnect(n, "the client didn't come back"); err != nil {
				return err
			}
		}
		return nil
	}))
	switch {
	case err == nil:
		l.expect()
	case errors.Is(err, ErrNotAwake), errors.Is(err, errAgain):
		l.absence.Hold(l.host.clock())
	default:
		l.report("disconnect absent clients", err)
		l.absence.Set(l.host.clock().Add(time.Minute))
	}
}
