package host

import (
	"errors"
	"log/slog"
	"time"
)

// takeMessages is the goroutine that has Type.Message called.
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
		l.log.Error("host: message", slog.Any("error", err))
		// Nothing of the turn has landed, the receipt neither. What is given back now is the
		// message that failed: nobody else takes messages, and the order is that of ids.
		if err := l.inward(l.ctx, newTurn("actor.returnMessage", l.returnMessage)); err != nil {
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

// returnMessage counts a delivery that failed, and puts off the next one.
func (l *life) returnMessage(c *Context) error {
	m, err := c.Receive(l.kind.MessageNames...)
	if m == nil || err != nil {
		return err
	}
	return m.Nack(backoff(int(m.Deliveries)))
}

// backoff is how long to wait after attempts that failed.
func backoff(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), 5*time.Minute)
}

// waiting says whether there is something in the queue that the actor would work on if it
// were awake.
func (l *life) waiting() bool {
	if l.queue.Len() == 0 {
		return false
	}
	wants := l.wants()
	for _, s := range l.queue.Stats().Names {
		if s.Ready > 0 && wants(s.Name) {
			return true
		}
	}
	return false
}
