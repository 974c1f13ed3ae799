package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A Tx is everything that one batch does to the queue: see Queue.In. Its methods stage what
// the Queue's methods of the same names commit, and may be called until the batch is
// settled, also by its late participants; after that they return batch.ErrSettled. Like the
// batch, a Tx is not safe for concurrent use.
//
// What is staged is claimed at once, and nothing else in memory changes before the commit.
// If the batch doesn't land, what was claimed is given back. On an error nothing was staged.
type Tx struct {
	q     *committer
	batch *batch.Batch
	draft
	landing
}

// begin is how every method starts: it enlists tx, so that Late is called, once more if it was
// called already.
//
// +checklocks:tx.q.mu
func (tx *Tx) begin() error {
	q := tx.q
	if err := q.usable(); err != nil {
		return err
	}
	if err := tx.batch.EnlistAgain(q, (*participant)(tx)); err != nil {
		return err
	}
	tx.draft.begin()
	return nil
}

// Complete stages Queue.Complete. The receipt is checked now; the lease doesn't end until
// the batch is settled.
func (tx *Tx) Complete(r Receipt, response any) error {
	body, err := encodeValue(response, whatResponse)
	if err == nil {
		tx.q.mu.Lock()
		defer tx.q.mu.Unlock()
		var c *change
		if c, _, err = tx.held(r); err == nil {
			c.remove, c.answer, c.metric = true, answer{response: body}, metricCompleted
			return nil
		}
	}
	return fmt.Errorf("queue: complete message %s: %w", r, err)
}

// Nack stages Queue.Nack, as Complete does. The context is for reading the message.
func (tx *Tx) Nack(ctx context.Context, r Receipt, delay time.Duration, why error) error {
	if delay < 0 {
		return fmt.Errorf("queue: nack message %s: %w", r,
			&InvalidError{What: whatOptions, Err: fmt.Errorf("the delay is %v", delay)})
	}
	last, doomed := causeOf(why), errkind.IsPermanent(why)
	return tx.change(ctx, r, "nack", func(c *change, rec *record) {
		now := tx.q.millis()
		if tx.q.tells && (why != nil || rec.past.failed()) {
			rec.past.fail(cmp.Or(c.to.since, now), last)
		}
		to := lease{state: ready, at: now, deliveries: r.Deliveries}
		if delay > 0 {
			to.state, to.at = delayed, after(now, delay)
		}
		c.metric = metricReturned
		if (tx.q.opts.dying(rec.name, to) || doomed && tx.q.opts.mortal(rec.name)) && tx.bury(c, rec) {
			c.doomed = doomed
			return
		}
		c.lease(rec, to, now)
		c.back, c.name = delay == 0, rec.name
		tx.back = tx.back || c.back
	})
}

// Settled reports whether tx ends the lease of a message that it has received: by Complete,
// Nack or Delete.
func (tx *Tx) Settled(id ID) bool {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	it := tx.find(id)
	if it == nil {
		return true
	}
	c := it.claim
	return c != nil && c.by == &tx.draft && (c.remove || c.to.state != leased)
}

// Extend stages Queue.Extend, as Complete does. The context is for reading the message.
func (tx *Tx) Extend(ctx context.Context, r Receipt, d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("queue: extend message %s: %w", r,
			&InvalidError{What: whatOptions, Err: fmt.Errorf("by %v", d)})
	}
	return tx.change(ctx, r, "extend", func(c *change, rec *record) {
		now := tx.q.millis()
		to := c.to
		to.at = after(now, d)
		c.lease(rec, to, now)
	})
}

// held claims a message, as draft.held does.
//
// +checklocks:tx.q.mu
func (tx *Tx) held(r Receipt) (c *change, fresh bool, err error) {
	if err := tx.begin(); err != nil {
		return nil, false, err
	}
	return tx.draft.held(r)
}

// change has fn change a message that was received, under q.mu.
func (tx *Tx) change(ctx context.Context, r Receipt, what string, fn func(c *change, rec *record)) error {
	q := tx.q
	q.mu.Lock()
	c, fresh, err := tx.held(r)
	q.mu.Unlock()
	if err != nil {
		return fmt.Errorf("queue: %s message %s: %w", what, r, err)
	}
	rec, err := c.read(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		if fresh {
			tx.unclaim(c)
		}
		return fmt.Errorf("queue: %s message %s: %w", what, r, err)
	}
	fn(c, &rec)
	return nil
}

// Delete stages that a message is removed, leased or not, also one that the batch itself
// enqueues, or one that is quarantined. One that isn't there is ErrGone, one that another batch has ErrBusy. Queue.Discard removes
// what is quarantined and has no id.
func (tx *Tx) Delete(id ID) error { return tx.delete(id, false) }

// delete is Delete, which refuses what is leased or delayed if onlyReady is set.
func (tx *Tx) delete(id ID, onlyReady bool) error {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	err := tx.begin()
	if err == nil {
		err = tx.remove(id, onlyReady)
	}
	if err != nil {
		return fmt.Errorf("queue: delete message %s: %w", id, err)
	}
	return nil
}

func (tx *Tx) discard(key []byte) error {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	err := tx.begin()
	if err == nil {
		err = tx.removeBad(key)
	}
	if err != nil {
		return fmt.Errorf("queue: discard %s: %w", actorstore.Describe(key), err)
	}
	return nil
}

// Enqueue stages a message and returns the ID that it will have. Its limits are checked
// now, its place is reserved, and it becomes visible when the batch lands.
//
// Errors: as Queue.Enqueue, and ErrBusy when another open batch has the same key.
func (tx *Tx) Enqueue(s Send) (ID, error) {
	id, err := tx.enqueue(&s)
	if err != nil {
		return 0, fmt.Errorf("queue: enqueue %.80q: %w", s.Name, err)
	}
	return id, nil
}

func (tx *Tx) enqueue(s *Send) (ID, error) {
	q := tx.q
	r, err := s.record(&q.settings)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := tx.begin(); err != nil {
		return 0, err
	}
	var k *keyed
	if s.Key != "" {
		now := q.millis() // a time from before q.mu was locked would be a clock that was set back
		q.keys.sooner(q.index.observe(now))
		if k, err = q.keys.find(&tx.keys, noteKeyOf(s.Name, s.Key), now, q.opts.MaxKeys); err != nil {
			return 0, err
		}
		if k.id != 0 {
			q.meter.Count(metricDuplicate, 1)
			return k.id, nil
		}
	}
	sent := r.created
	it, err := tx.replace(r, s.Debounce)
	if err == nil && it == nil {
		it, err = tx.admit(r)
	}
	if err != nil {
		return 0, err
	}
	if k != nil {
		q.keys.take(&tx.keys, k, it.id, after(sent, q.opts.KeyWindow))
	}
	return it.id, nil
}
