package queue

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
)

// Calls that come while another one's batch is on its way to the engine don't make commits one after the other: the next one takes those that wait into its
// batch. Each lands or is refused as if it had a commit of its own: what it can't stage it is told, and if the batch is refused each is tried alone.

// A call is one that others may join, or that joins others. Its memory is used again: what is called most often takes and gives
// what is below by its fields, where functions that capture would be made for each call.
type call struct {
	stage func(c *call, tx *Tx) error
	ctx   context.Context // the caller's
	pass  func()          // ends its lead
	err   error
	alone bool // it is to be tried alone

	send     Send           // what enqueue sends
	id       ID             // of what it sent
	receive  ReceiveOptions // what hand receives
	msgs     []*Message     // that it received
	unread   error          // why next received none
	message  *Message       // what complete completes, nil for that of the receipt
	receipt  Receipt
	response any
}

// enqueue stages the message that the call sends.
func (c *call) enqueue(tx *Tx) (err error) {
	c.id, err = tx.Enqueue(c.send)
	return err
}

// hand stages what the call receives.
func (c *call) hand(tx *Tx) (err error) {
	c.msgs, err = tx.receive(c.ctx, &c.receive)
	return err
}

// complete stages the completion of the call's message.
func (c *call) complete(tx *Tx) error {
	r := c.receipt
	if c.message != nil {
		r = c.message.Receipt() // of now: a lease that is durable by now needs no nonce
	}
	return tx.Complete(r, c.response)
}

// next stages both: the message is completed, whatever the other one is like.
func (c *call) next(tx *Tx) error {
	err := c.complete(tx)
	if err == nil {
		c.unread = c.hand(tx)
	}
	return err
}

func (c *call) stages(tx *Tx) error { return c.stage(c, tx) }

// A waiter is a call with its place in the line.
type waiter = groupcommit.Waiter[call]

// call returns one that stages what stage does, which the caller gives back by release once it has read what came of it.
func (q *committer) call(stage func(c *call, tx *Tx) error) *waiter {
	w, _ := q.calls.Get().(*waiter)
	if w == nil {
		w = &waiter{}
		w.Value.pass = w.Pass
	}
	w.Value.stage = stage
	return w
}

// release makes the memory of a call that is over free for another one.
func (q *committer) release(w *waiter) {
	w.Value = call{pass: w.Value.pass}
	q.calls.Put(w)
}

// settle is together of a call that stages what stage does, and from which nothing is read.
func (q *committer) settle(ctx context.Context, stage func(c *call, tx *Tx) error) error {
	w := q.call(stage)
	defer q.release(w)
	return q.together(ctx, w)
}

// maxTogether is how many calls have one commit, and perSubBatch how many for each sub-batch that a commit may have: a call writes a message, and perhaps a key.
const (
	maxTogether = 64
	perSubBatch = 8
)

// together is commit of a call that others may join, or that joins others. Its stage stages one thing, or nothing if it returns an error, and is called on any
// goroutine: it finds what was staged before it in the batch as if that had landed.
func (q *committer) together(ctx context.Context, w *waiter) error {
	c := &w.Value
	c.ctx, c.err, c.alone = ctx, nil, false
	leads, err := q.line.Enter(ctx, w)
	switch {
	case err != nil:
		return err
	case leads:
		n := q.most()
		return q.lead(w, q.line.Take(func(*call) bool { n--; return n >= 0 }))
	case c.alone:
		return q.commit(ctx, c.stages)
	default:
		return c.err
	}
}

// most is how many calls may join another one.
func (q *committer) most() int {
	if n := q.actor.Limits().AtomicBatches; 0 < n && n < maxTogether/perSubBatch {
		return n*perSubBatch - 1
	}
	return maxTogether - 1
}

// lead commits what a call stages, and others, and has the next call lead as soon as that is applied.
func (q *committer) lead(w *waiter, others []*waiter) error {
	c := &w.Value
	if len(others) == 0 {
		defer w.Pass()
		return q.commitThen(c.ctx, c.stages, c.pass)
	}
	var own error
	staged, over := 0, false // calls that are in the batch
	defer func() {
		if !over { // what the leader stages has panicked
			w.Pass()
			for _, o := range others {
				o.Value.err, o.Value.alone = nil, true
				o.Done()
			}
		}
	}()
	err := q.commitThen(context.WithoutCancel(c.ctx), func(tx *Tx) error {
		if own = c.stages(tx); own == nil {
			staged++
		}
		for _, o := range others {
			if o.Value.join(tx); o.Value.err == nil {
				staged++
			}
		}
		if staged == 0 {
			return own
		}
		return nil
	}, c.pass)
	over = true
	w.Pass()
	alone := err != nil && staged > 1 && q.actor.Err() == nil
	for _, o := range others {
		if c := &o.Value; c.err == nil {
			c.err, c.alone = err, alone
		} else {
			c.alone = c.err == errPanics
		}
		o.Done()
	}
	switch {
	case own != nil:
		return own
	case alone:
		return q.commit(c.ctx, c.stages)
	}
	return err
}

// errPanics is for a call that is to panic on its own goroutine.
var errPanics = errors.New("queue: a value has panicked")

// join stages what the call does. Methods of a caller's values may panic: before anything is staged.
func (c *call) join(tx *Tx) {
	defer func() {
		if recover() != nil {
			c.err = errPanics
		}
	}()
	c.err = c.stages(tx)
}
