package queue

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
)

// Calls that come while another one's batch is on its way to the engine don't make commits one after the other: the next one takes those that wait into its
// batch. Each lands or is refused as if it had a commit of its own: what it can't stage it is told, and if the batch is refused each is tried alone.

// A call is one that others may join, or that joins others.
type call struct {
	stage func(tx *Tx) error
	err   error
	alone bool // it is to be tried alone
}

// maxTogether is how many calls have one commit, and perSubBatch how many for each sub-batch that a commit may have: a call writes a message, and perhaps a key.
const (
	maxTogether = 64
	perSubBatch = 8
)

// together is commit of a call that others may join, or that joins others. stage stages one thing, or nothing if it returns an error, and is called on any
// goroutine: it finds what was staged before it in the batch as if that had landed.
func (q *committer) together(ctx context.Context, stage func(tx *Tx) error) error {
	w := &groupcommit.Waiter[call]{Value: call{stage: stage}}
	leads, err := q.line.Enter(ctx, w)
	switch c := &w.Value; {
	case err != nil:
		return err
	case leads:
		n := q.most()
		return q.lead(ctx, w, q.line.Take(func(*call) bool { n--; return n >= 0 }))
	case c.alone:
		return q.commit(ctx, stage)
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
func (q *committer) lead(ctx context.Context, w *groupcommit.Waiter[call], others []*groupcommit.Waiter[call]) error {
	stage := w.Value.stage
	if len(others) == 0 {
		defer w.Pass()
		return q.commitThen(ctx, stage, w.Pass)
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
	err := q.commitThen(context.WithoutCancel(ctx), func(tx *Tx) error {
		if own = stage(tx); own == nil {
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
	}, w.Pass)
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
		return q.commit(ctx, stage)
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
	c.err = c.stage(tx)
}
