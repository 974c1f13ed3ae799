package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Calls that come while another one's batch is on its way to the engine don't make commits one after the other: the next one takes those that wait into its
// batch. Each lands or is refused as if it had a commit of its own: what it can't stage it is told, and if the batch is refused each is tried alone.

// Turns are the calls that wait for their turn to commit. One at a time leads, from its turn until its batch is applied.
type turns struct {
	mu      sync.Mutex
	led     bool    // a call leads
	turn    uint64  // how many calls have led
	waiting []*call // in the order in which they came
	pass    func()  // next, made once
}

// A call is one that waits.
type call struct {
	stage func(tx *Tx) error
	leads chan bool // true: it is its turn; false: another call has seen to it
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
	l := &q.turns
	l.mu.Lock()
	if !l.led { // then no call waits
		l.led = true
		turn := l.turn
		l.mu.Unlock()
		return q.lead(ctx, turn, stage, nil)
	}
	c := &call{stage: stage, leads: make(chan bool, 1)}
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	var leads bool
	select {
	case leads = <-c.leads:
	case <-ctx.Done():
		if l.leave(c) {
			return ctx.Err()
		}
		leads = <-c.leads // its batch is on the way
	}
	switch {
	case leads:
		l.mu.Lock()
		others, turn := l.join(q.most()), l.turn
		l.mu.Unlock()
		return q.lead(ctx, turn, stage, others)
	case c.alone:
		return q.commit(ctx, stage)
	}
	return c.err
}

// most is how many calls may join another one.
func (q *committer) most() int {
	if n := q.actor.Limits().AtomicBatches; 0 < n && n < maxTogether/perSubBatch {
		return n*perSubBatch - 1
	}
	return maxTogether - 1
}

// lead commits what a call stages, and others, and has the next call lead as soon as that is applied.
func (q *committer) lead(ctx context.Context, turn uint64, stage func(tx *Tx) error, others []*call) error {
	l := &q.turns
	if len(others) == 0 {
		defer l.end(turn)
		return q.commitThen(ctx, stage, l.pass)
	}
	var own error
	staged, over := 0, false // calls that are in the batch
	defer func() {
		if !over { // what the leader stages has panicked
			l.end(turn)
			for _, c := range others {
				c.err, c.alone = nil, true
				c.leads <- false
			}
		}
	}()
	err := q.commitThen(context.WithoutCancel(ctx), func(tx *Tx) error {
		if own = stage(tx); own == nil {
			staged++
		}
		for _, c := range others {
			if c.join(tx); c.err == nil {
				staged++
			}
		}
		if staged == 0 {
			return own
		}
		return nil
	}, l.pass)
	over = true
	l.end(turn)
	alone := err != nil && staged > 1 && q.actor.Err() == nil
	for _, c := range others {
		if c.err == nil {
			c.err, c.alone = err, alone
		} else {
			c.alone = c.err == errPanics
		}
		c.leads <- false
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

// join takes calls that wait, n at most.
//
// +checklocks:l.mu
func (l *turns) join(n int) []*call {
	n = min(n, len(l.waiting))
	joined := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return joined
}

// leave takes a call out of the line, and returns false if it isn't there any more.
func (l *turns) leave(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// end is next, if the leader of that turn hasn't called it.
func (l *turns) end(turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == turn {
		l.nextLocked()
	}
}

// next has the next call lead.
func (l *turns) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextLocked()
}

// +checklocks:l.mu
func (l *turns) nextLocked() {
	l.turn++
	if l.led = len(l.waiting) > 0; l.led {
		c := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		c.leads <- true
	}
}
