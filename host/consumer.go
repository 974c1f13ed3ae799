package host

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/queue"
)

// A consumer takes the messages of an actor's queue for Type.Message and for Type.Batch.
type consumer struct {
	*life
	intake
}

// An intake says which messages are taken, and what is done for them in one turn.
type intake struct {
	part part
	opts queue.ReceiveOptions
	do   func(c *Context, all []*greenroom.Message) error
}

// intakes returns those of a type.
func (t *Type) intakes() (all []intake) {
	if message := t.Message; message != nil {
		all = append(all, intake{partMessage, queue.ReceiveOptions{Names: t.MessageNames, Count: 1},
			func(c *Context, all []*greenroom.Message) error { return message(c, all[0]) }})
	}
	if b := t.Batch; b != nil {
		all = append(all, intake{partBatch, queue.ReceiveOptions{Names: b.Names, Count: b.Count, Linger: b.Linger, Apart: true}, b.Do})
	}
	return all
}

// take is the goroutine that calls do.
func (l consumer) take() {
	for {
		if err := l.await(); err != nil {
			return // the actor is to sleep, or lost
		}
		p, err := claimer{l.life}.admit(l.ctx, l.kind.limits, l.part, 0)
		if err != nil {
			return // likewise
		}
		var got []*greenroom.Message
		err = l.inward(l.ctx, newTurn(spanMessage, func(c *Context) error { return l.turn(c, &got) }))
		p.release(len(got) == 0)
		if err == nil {
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, errAgain) || errors.Is(err, ErrNotAwake) {
			return
		}
		l.host.troubles.tell(l.log, l.host.clock(), "host: message", l.kind.Name, err, l.attributes(got, err)...)
		// Nothing of the turn has landed, the receipts neither.
		if err := l.giveBack(got, err); err != nil {
			l.report("return a message", err)
			return
		}
	}
}

// await waits until there is something to take. The actor stays awake while messages wait for others.
func (l consumer) await() error {
	err := l.queue.WaitFor(l.ctx, l.opts.Names...)
	if err != nil || l.opts.Linger == 0 {
		return err
	}
	if !l.keep() {
		return ErrNotAwake
	}
	defer l.unkeep()
	return l.queue.WaitToReceive(l.ctx, &l.opts)
}

// turn is the turn of messages, which it notes in got.
func (l consumer) turn(c *Context, got *[]*greenroom.Message) error {
	all, err := c.ReceiveWith(&l.opts)
	if len(all) == 0 || err != nil {
		return err
	}
	*got = all
	if err := l.do(c, all); err != nil {
		return err
	}
	for _, m := range all {
		if !m.Settled() {
			if err := m.Complete(nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack counts deliveries that failed, and puts off the next ones. If no message is known, since the turn failed before it
// had one, that is for the next one, so that the actor isn't busy with failing.
func (l consumer) giveBack(got []*greenroom.Message, failed error) error {
	opts := queue.ReceiveOptions{Names: l.opts.Names, Count: max(len(got), 1)}
	for _, m := range got {
		opts.IDs = append(opts.IDs, m.ID)
	}
	code := Code(failed)
	if len(got) > 1 { // which of them it is that nothing helps comes out when each is by itself
		failed = errors.New(failed.Error())
	}
	for left := opts.Count; ; {
		n := 0
		err := l.inward(l.ctx, newTurn(spanReturn, func(c *Context) error {
			all, err := c.ReceiveWith(&opts)
			for _, m := range all {
				err = errors.Join(err, m.Nack(backoff(int(m.Deliveries)), errkind.WithCode(code, failed)))
			}
			n = len(all)
			return err
		}))
		switch {
		case err != nil && opts.Count > 1 && errors.Is(err, batch.ErrTooLarge):
			opts.Count = (opts.Count + 1) / 2 // only a commit knows what fits into it
		case err != nil || n < opts.Count || n == left:
			return err
		default:
			left -= n
			opts.Count = min(opts.Count, left)
		}
	}
}

// attributes are what the log says of messages that failed.
func (l consumer) attributes(got []*greenroom.Message, failed error) []any {
	if len(got) != 1 {
		return []any{slog.Int("messages", len(got))}
	}
	m := got[0]
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
