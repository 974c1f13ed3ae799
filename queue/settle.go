package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
)

// Complete removes a message that was received, durably, and gives the response, any
// value or a Raw, to those that wait for it; nil is null.
//
// Errors: ErrGone when the message isn't there any more, ErrLeaseOver when the receipt
// isn't good any more, ErrBusy, *InvalidError for a response that can't be encoded, and
// those of actorstore.Actor.Commit.
func (q *Queue) Complete(ctx context.Context, r Receipt, response any) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Complete(r, response) })
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

// Nack gives a message that was received back, durably: it is visible after the delay.
// If it was handed out Options.MaxReceive times it becomes a dead letter instead: at once,
// or, if the actor has no room for that, as soon as it has.
//
// why is the error that the attempt ended with: its text is stored with the message, and its
// code, which is what a method ErrorCode() string of it says, or a word for its kind; see
// Failure. nil is for a message that is given back without having failed.
//
// Errors: as Complete.
func (q *Queue) Nack(ctx context.Context, r Receipt, delay time.Duration, why error) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Nack(ctx, r, delay, why) })
}

// Nack stages Queue.Nack, as Complete does. The context is for reading the message.
func (tx *Tx) Nack(ctx context.Context, r Receipt, delay time.Duration, why error) error {
	if delay < 0 {
		return fmt.Errorf("queue: nack message %s: %w", r,
			&InvalidError{What: whatOptions, Err: fmt.Errorf("the delay is %v", delay)})
	}
	last := causeOf(why)
	return tx.change(ctx, r, "nack", func(c *change, rec *record) {
		now := tx.q.millis()
		if tx.q.tells && (why != nil || rec.past.failed()) {
			rec.past.fail(cmp.Or(c.to.since, now), last)
		}
		to := lease{state: ready, deliveries: r.Deliveries}
		if delay > 0 {
			to.state, to.at = delayed, after(now, delay)
		}
		c.metric = metricReturned
		if tx.q.opts.dying(rec.name, to) && tx.bury(c, rec) {
			return
		}
		tx.lease(c, rec, to, now)
		c.back, c.name = delay == 0, rec.name
		tx.back = tx.back || c.back
	})
}

// Settled reports whether tx ends the lease of a message that it has received: by Complete,
// Nack or Delete.
func (tx *Tx) Settled(id ID) bool {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	it := cmp.Or(tx.q.index.byID[id], tx.adds.find(id))
	if it == nil {
		return true
	}
	c := it.claim
	return c != nil && c.tx == tx && (c.remove || c.to.state != leased)
}

// Extend has the lease of a message that was received end d from now, durably; the
// receipt stays good.
//
// Errors: as Complete.
func (q *Queue) Extend(ctx context.Context, r Receipt, d time.Duration) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Extend(ctx, r, d) })
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
		tx.lease(c, rec, to, now)
	})
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

// held claims a message, if the receipt is good; fresh says that tx did nothing to the
// message before.
//
// +checklocks:tx.q.mu
func (tx *Tx) held(r Receipt) (c *change, fresh bool, err error) {
	q := tx.q
	if err := tx.begin(); err != nil {
		return nil, false, err
	}
	q.due()
	it := cmp.Or(q.index.byID[r.ID], tx.adds.find(r.ID))
	if it == nil {
		return nil, false, ErrGone
	}
	at := &it.lease
	if c := it.claim; c != nil {
		switch {
		case c.tx != tx:
			return nil, false, ErrBusy
		case c.remove:
			return nil, false, ErrGone
		}
		at = &c.to
	}
	if !at.fits(r) {
		return nil, false, ErrLeaseOver
	}
	fresh = it.claim == nil
	c, err = tx.claim(it)
	return c, fresh, err
}

// Delete stages that a message is removed, leased or not, also one that the batch itself
// enqueues, or one that is quarantined. One that isn't there is ErrGone, one that another batch has ErrBusy. Queue.Discard removes
// what is quarantined and has no id.
func (tx *Tx) Delete(id ID) error {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	err := tx.begin()
	if err == nil {
		err = tx.remove(id, metricDeleted)
	}
	if err != nil {
		return fmt.Errorf("queue: delete message %s: %w", id, err)
	}
	return nil
}

// +checklocks:tx.q.mu
func (tx *Tx) remove(id ID, m *metrics.Metric) error {
	it := cmp.Or(tx.q.index.byID[id], tx.adds.find(id))
	if it == nil {
		return tx.removeBad(appendMessageKey(tx.q.actor.Layout(), nil, id))
	}
	if tx.onlyReady {
		if tx.q.due(); it.state != ready {
			return ErrBusy
		}
	}
	c, err := tx.claim(it)
	if err != nil {
		return err
	}
	if c.remove {
		return ErrGone
	}
	c.remove, c.answer, c.metric = true, answer{err: fmt.Errorf("%w: it was deleted", ErrNoAnswer)}, m
	return nil
}

// Discard removes what is quarantined under a key of the actor, durably. Any other key is
// ErrGone.
func (q *Queue) Discard(ctx context.Context, key []byte) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.discard(key) })
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

// Delete removes messages, as Tx.Delete does, and returns which of them were there, in
// the order of ids. Many are removed by several commits, each within the limits of a
// batch; on an error what is returned has been removed.
func (q *Queue) Delete(ctx context.Context, ids ...ID) (removed []ID, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return q.delete(ctx, ids, false, func(err error) bool { return errors.Is(err, ErrGone) })
}

// DeleteReady is Delete of those messages that are ready in the moment of their commit: what is leased or delayed stays.
func (q *Queue) DeleteReady(ctx context.Context, ids ...ID) (removed []ID, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return q.delete(ctx, ids, true, goneOrBusy)
}

func goneOrBusy(err error) bool { return errors.Is(err, ErrGone) || errors.Is(err, ErrBusy) }

// delete is Delete of sorted ids, or DeleteReady, where skip says for which errors one is left out.
func (q *Queue) delete(ctx context.Context, ids []ID, only bool, skip func(error) bool) (removed []ID, err error) {
	// With the metadata so many fill one sub-batch.
	most := max(q.actor.Limits().Entries-1, 1)
	for len(ids) > 0 {
		n := min(len(ids), most)
		var some []ID
		err := q.commit(ctx, func(tx *Tx) error {
			tx.onlyReady = only
			defer func() { tx.onlyReady = false }()
			for _, id := range ids[:n] {
				err := tx.Delete(id)
				switch {
				case err == nil:
					some = append(some, id)
				case !skip(err):
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed, ids = append(removed, some...), ids[n:]
	}
	return removed, q.check(ctx)
}

// Purge removes the messages of the names, or all if there are none, as Delete does, but
// for those that batches have and those that come meanwhile. It returns how many.
func (q *Queue) Purge(ctx context.Context, names ...string) (n int, err error) {
	removed, err := q.delete(ctx, q.ids(names), false, goneOrBusy)
	return len(removed), err
}

// removeBad stages that what is quarantined under a key is removed. What is there is read by the
// store: nothing is known about it.
//
// +checklocks:tx.q.mu
func (tx *Tx) removeBad(key []byte) error {
	q := tx.q
	i := slices.IndexFunc(q.bad, func(b Quarantined) bool { return bytes.Equal(b.Key, key) })
	if i < 0 {
		return ErrGone
	}
	tx.bad = append(tx.bad, q.bad[i])
	q.bad = slices.Delete(slices.Clone(q.bad), i, i+1)
	return nil
}
