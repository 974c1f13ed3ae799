package host

import (
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// A Queue is the actor's queue, as a turn sees it: what the turn does lands with it.
type Queue struct{ c *Context }

// Queue returns the actor's queue.
func (c *Context) Queue() Queue { return Queue{c} }

// due has the actor woken again for what the turn is about to stage.
func (c *Context) due() error {
	if err := c.check(); err != nil {
		return err
	}
	return c.life.markDue()
}

// Send puts a message into the queue, and returns the ID that it will have. See
// queue.Tx.Enqueue.
func (q Queue) Send(s queue.Send) (queue.ID, error) {
	if err := q.c.due(); err != nil {
		return 0, err
	}
	id, err := q.c.life.queue.In(q.c.Batch()).Enqueue(s)
	if err == nil {
		q.c.sent(s.Name, traces.Int(keyQueueMessageID, int64(id)))
	}
	return id, err
}

// Receive takes messages: those that are visible now, and none if there are none. What
// isn't completed, in this turn or later, comes again when its lease is over. See
// queue.Tx.Receive.
func (q Queue) Receive(opts *queue.ReceiveOptions) ([]*queue.Message, error) {
	if err := q.c.due(); err != nil {
		return nil, err
	}
	ms, err := q.c.life.queue.In(q.c.Batch()).Receive(q.c, opts)
	for _, m := range ms {
		q.c.received(m)
	}
	return ms, err
}

// Complete removes a message that was received, in this turn or before, and gives the
// response to who waits for it.
func (q Queue) Complete(r queue.Receipt, response any) error {
	if err := q.c.check(); err != nil {
		return err
	}
	if raw, ok := response.(Raw); ok {
		response = queue.Raw(raw)
	}
	return q.settle(r, q.c.life.queue.In(q.c.Batch()).Complete(r, response))
}

// Nack gives a message that was received back, to be visible after the delay.
func (q Queue) Nack(r queue.Receipt, delay time.Duration) error {
	if err := q.c.due(); err != nil {
		return err
	}
	return q.settle(r, q.c.life.queue.In(q.c.Batch()).Nack(q.c, r, delay))
}

// settle notes that the turn has settled a message.
func (q Queue) settle(r queue.Receipt, err error) error {
	if err == nil {
		if q.c.settled == nil {
			q.c.settled = map[queue.ID]bool{}
		}
		q.c.settled[r.ID] = true
	}
	return err
}

// Len returns how many messages there are, visible or not, without those that the turn
// has sent.
func (q Queue) Len() int { return q.c.life.queue.Len() }

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

func (l *life) receiveOne(c *Context) (*queue.Message, error) {
	ms, err := c.Queue().Receive(&queue.ReceiveOptions{Names: l.kind.MessageNames})
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	return ms[0], nil
}

// takeMessage is the turn of one message.
func (l *life) takeMessage(c *Context) error {
	m, err := l.receiveOne(c)
	if m == nil || err != nil {
		return err
	}
	if err := l.kind.Message(c, m); err != nil || c.settled[m.ID] {
		return err
	}
	return c.Queue().Complete(m.Receipt(), nil)
}

// returnMessage counts a delivery that failed, and puts off the next one.
func (l *life) returnMessage(c *Context) error {
	m, err := l.receiveOne(c)
	if m == nil || err != nil {
		return err
	}
	return c.Queue().Nack(m.Receipt(), backoff(int(m.Deliveries)))
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
