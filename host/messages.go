package host

import (
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/workflow"
)

// takeMessages is the goroutine that calls Type.Message.
func (l *life) takeMessages() {
	for {
		if err := l.queue.WaitFor(l.ctx, l.kind.MessageNames...); err != nil {
			return // the actor is to sleep, or lost
		}
		err := l.inward(l.ctx, newTurn(spanMessage, l.takeMessage))
		if err == nil {
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, errAgain) || errors.Is(err, ErrNotAwake) {
			return
		}
		l.host.troubles.tell(l.log, l.host.clock(), "host: message", l.kind.Name, err)
		// Nothing of the turn has landed, the receipt neither. What is given back now is the
		// message that failed: no other goroutine takes messages, and the order is that of ids.
		if err := l.inward(l.ctx, newTurn("actor.returnMessage", l.returnMessage(err))); err != nil {
			l.report("return a message", err)
			return
		}
	}
}

// takeMessage is the turn of one message.
func (l *life) takeMessage(c *Context) error {
	m, err := c.Receive(l.kind.MessageNames...)
	if m == nil || err != nil {
		return err
	}
	if err := l.kind.Message(c, m); err != nil || m.Settled() {
		return err
	}
	return m.Complete(nil)
}

// returnMessage is the turn that counts a delivery which failed, and puts off the next one.
func (l *life) returnMessage(failed error) func(c *Context) error {
	return func(c *Context) error {
		m, err := c.Receive(l.kind.MessageNames...)
		if m == nil || err != nil {
			return err
		}
		return m.Nack(backoff(int(m.Deliveries)), errkind.WithCode(Code(failed), failed))
	}
}

// backoff is how long to wait after attempts that failed.
func backoff(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), 5*time.Minute)
}

// A remnant is what an actor leaves undone when it goes to sleep.
type remnant struct {
	ready bool // there is something that it would do if it were awake
	stuck bool // there is something that only another version of its type may do
	fresh bool // and some of it has come in this stay in memory
}

// of finds out what the actor leaves: messages that it wants or doesn't, what is to be sent,
// events whose action is missing, a workflow that its code can't go on with.
func (r *remnant) of(l *life) {
	r.fresh = l.strange
	if l.queue.Len() > 0 {
		wants := l.wants()
		for _, s := range l.queue.Stats().Names {
			if s.Ready == 0 {
				continue
			}
			if wants(s.Name) {
				r.ready = true
			} else {
				r.stuck, r.fresh = true, r.fresh || s.Ready > l.found[s.Name]
			}
		}
	}
	r.ready = r.ready || l.unsent() || l.workflow != nil && l.workflow.owed()
	r.stuck = r.stuck || l.record.Schedule().Missing() || r.hasFlow(l)
}

// hasFlow says whether there is a workflow that another version of the type may go on with:
// it has no code here, or code that fails.
func (r *remnant) hasFlow(l *life) bool {
	if l.workflow != nil {
		return l.workflow.stuck.Load()
	}
	if w := l.actor.Wake(); w.At.IsZero() && len(w.Tried) == 0 { // nothing is stored that it may do
		return false
	}
	snap, err := l.actor.Snapshot(l.steady)
	if err == nil {
		var left bool
		left, err = workflow.Unfinished(l.steady, snap)
		if err = errors.Join(err, snap.Close()); err == nil {
			return left
		}
	}
	l.report("look for a workflow", err)
	return true // it may be there
}
