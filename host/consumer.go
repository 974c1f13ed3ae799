package host

import (
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A consumer takes the messages of an actor's queue for Type.Message.
type consumer struct{ *life }

// take is the goroutine that calls Type.Message.
func (l consumer) take() {
	for {
		if err := l.queue.WaitFor(l.ctx, l.kind.MessageNames...); err != nil {
			return // the actor is to sleep, or lost
		}
		err := l.inward(l.ctx, newTurn(spanMessage, l.turn))
		if err == nil {
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, errAgain) || errors.Is(err, ErrNotAwake) {
			return
		}
		l.host.troubles.tell(l.log, l.host.clock(), "host: message", l.kind.Name, err)
		// Nothing of the turn has landed, the receipt neither. What is given back now is the
		// message that failed: no other goroutine takes messages, and the order is that of ids.
		if err := l.inward(l.ctx, newTurn(spanReturn, l.giveBack(err))); err != nil {
			l.report("return a message", err)
			return
		}
	}
}

// turn is the turn of one message.
func (l consumer) turn(c *Context) error {
	m, err := c.Receive(l.kind.MessageNames...)
	if m == nil || err != nil {
		return err
	}
	if err := l.kind.Message(c, m); err != nil || m.Settled() {
		return err
	}
	return m.Complete(nil)
}

// giveBack is the turn that counts a delivery which failed, and puts off the next one.
func (l consumer) giveBack(failed error) func(c *Context) error {
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
	return min(time.Second<<min(max(attempts-1, 0), 10), maxBackoff)
}

const maxBackoff = 5 * time.Minute
