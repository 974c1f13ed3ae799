package host

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host/internal/limits"
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
		p, err := claimer{l.life}.admit(l.ctx, l.kind.Limits, limits.Claimant{Part: partMessage}, false, &l.inLine.messages)
		if err != nil {
			return // likewise
		}
		var got *greenroom.Message
		err = l.inward(l.ctx, newTurn(spanMessage, func(c *Context) error { return l.turn(c, &got) }))
		p.release(got == nil)
		if err == nil {
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, errAgain) || errors.Is(err, ErrNotAwake) {
			return
		}
		l.host.troubles.tell(l.log, l.host.clock(), "host: message", l.kind.Name, err, l.attributes(got, err)...)
		// Nothing of the turn has landed, the receipt neither.
		err = l.inward(l.ctx, newTurn(spanReturn, l.giveBack(got, err)))
		if err != nil && !errors.Is(err, errOther) {
			l.report("return a message", err)
			return
		}
	}
}

// turn is the turn of one message, which it notes in got.
func (l consumer) turn(c *Context, got **greenroom.Message) error {
	m, err := c.Receive(l.kind.MessageNames...)
	if m == nil || err != nil {
		return err
	}
	*got = m
	if err := l.kind.Message(c, m); err != nil || m.Settled() {
		return err
	}
	return m.Complete(nil)
}

// errOther: another message comes before the one that is to be given back, such as an older one that has become visible since. The one
// that failed comes again after it.
var errOther = errors.New("host: another message comes first")

// giveBack is the turn that counts a delivery which failed, and puts off the next one. got is the message, nil if the turn failed
// before it had one: then it is the next one, so that the actor isn't busy with failing.
func (l consumer) giveBack(got *greenroom.Message, failed error) func(c *Context) error {
	return func(c *Context) error {
		m, err := c.Receive(l.kind.MessageNames...)
		if m == nil || err != nil {
			return err
		}
		if got != nil && m.ID != got.ID {
			return errOther
		}
		return m.Nack(backoff(int(m.Deliveries)), errkind.WithCode(Code(failed), failed))
	}
}

// attributes are what the log says of a message that failed.
func (l consumer) attributes(m *greenroom.Message, failed error) []any {
	if m == nil {
		return nil
	}
	all := []any{slog.String("message", m.ID.String()), slog.String("name", m.Name), slog.Int("delivery", int(m.Deliveries))}
	o := &l.kind.Queue
	last := errkind.IsPermanent(failed) || o.MaxReceive > 0 && int64(m.Deliveries) >= int64(o.MaxReceive)
	if last && !strings.HasSuffix(m.Name, deadLetter(o)) {
		all = append(all, slog.Bool("dead_letter", true))
	}
	return all
}

// deadLetter is the end of the names of dead letters.
func deadLetter(o *greenroom.QueueOptions) string {
	if o.DeadLetter == "" {
		return ".dlq"
	}
	return o.DeadLetter
}

// backoff is how long to wait after attempts that failed.
func backoff(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), maxBackoff)
}

const maxBackoff = 5 * time.Minute
