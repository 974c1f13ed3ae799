package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// Complete removes a message that was received, durably, and gives the response, any
// value or a Raw, to who waits for it; nil is null.
//
// Errors: ErrGone when there is no such message any more, ErrLeaseOver when the receipt
// is no good any more, ErrBusy, *InvalidError for a response that can't be encoded, and
// those of actorstore.Actor.Commit.
func (q *Queue) Complete(ctx context.Context, r Receipt, response any) error {
	return q.commit(ctx, func(b *batch.Batch) error { return q.StageComplete(b, r, response) })
}

// StageComplete stages Complete in b. The receipt is checked now; until b is settled the
// lease doesn't end.
func (q *Queue) StageComplete(b *batch.Batch, r Receipt, response any) error {
	body, err := encodeValue(response, whatResponse)
	if err == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		var c *change
		if c, _, err = q.held(b, r); err == nil {
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
// Errors: as Complete.
func (q *Queue) Nack(ctx context.Context, r Receipt, delay time.Duration) error {
	return q.commit(ctx, func(b *batch.Batch) error { return q.StageNack(ctx, b, r, delay) })
}

// StageNack stages Nack in b, as StageComplete does.
func (q *Queue) StageNack(ctx context.Context, b *batch.Batch, r Receipt, delay time.Duration) error {
	if delay < 0 {
		return fmt.Errorf("queue: nack message %s: %w", r,
			&InvalidError{What: whatOptions, Err: fmt.Errorf("the delay is %v", delay)})
	}
	return q.change(ctx, b, r, "nack", func(st *staging, c *change, rec *record) {
		now := q.millis()
		to := lease{state: ready, deliveries: r.Deliveries}
		if delay > 0 {
			to.state, to.at = delayed, after(now, delay)
		}
		c.metric = metricReturned
		if q.dying(rec.name, to) && st.bury(c, rec) {
			return
		}
		st.lease(c, rec, to, now)
	})
}

// Extend has the lease of a message that was received end d from now, durably; the
// receipt stays good.
//
// Errors: as Complete.
func (q *Queue) Extend(ctx context.Context, r Receipt, d time.Duration) error {
	return q.commit(ctx, func(b *batch.Batch) error { return q.StageExtend(ctx, b, r, d) })
}

// StageExtend stages Extend in b, as StageComplete does.
func (q *Queue) StageExtend(ctx context.Context, b *batch.Batch, r Receipt, d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("queue: extend message %s: %w", r,
			&InvalidError{What: whatOptions, Err: fmt.Errorf("by %v", d)})
	}
	return q.change(ctx, b, r, "extend", func(st *staging, c *change, rec *record) {
		now := q.millis()
		to := c.to
		to.at = after(now, d)
		st.lease(c, rec, to, now)
	})
}

// change has fn change a message that was received, under q.mu.
func (q *Queue) change(ctx context.Context, b *batch.Batch, r Receipt, what string,
	fn func(st *staging, c *change, rec *record)) error {

	q.mu.Lock()
	c, fresh, err := q.held(b, r)
	q.mu.Unlock()
	if err != nil {
		return fmt.Errorf("queue: %s message %s: %w", what, r, err)
	}
	// It may be one that b has received: then it is not stored as it will be.
	value, rec := c.rec, record{}
	if value == nil {
		value, err = q.value(ctx, c.it)
	}
	if err == nil {
		rec, err = parseRecord(value)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		if fresh {
			c.st.unclaim(c)
		}
		return fmt.Errorf("queue: %s message %s: %w", what, r, err)
	}
	fn(c.st, c, &rec)
	return nil
}

// held claims a message for b, if the receipt is good; fresh says that b did nothing to
// the message before.
//
// +checklocks:q.mu
func (q *Queue) held(b *batch.Batch, r Receipt) (c *change, fresh bool, err error) {
	st, err := q.staging(b)
	if err != nil {
		return nil, false, err
	}
	q.due()
	it := q.index.byID[r.ID]
	if it == nil {
		return nil, false, ErrGone
	}
	at := &it.lease
	if c := it.claim; c != nil {
		switch {
		case c.st != st:
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
	c, err = st.claim(it)
	return c, fresh, err
}

// bury stages that a message becomes a dead letter, behind all others: a new message
// takes its place. It reports false when there is no room for the longer name in the
// value, or no id: the message then stays what it is.
//
// +checklocks:st.q.mu
func (st *staging) bury(c *change, r *record) bool {
	q := st.q
	dead := record{name: r.name + q.opts.DeadLetter, body: r.body, created: r.created}
	if !q.opts.Plain {
		dead.setLease(lease{deliveries: c.to.deliveries}, 0)
	}
	if dead.size() > q.limit {
		c.it.stays = true
		return false
	}
	it, err := st.add(&dead, false)
	if err != nil {
		c.it.stays = true
		return false
	}
	it.deliveries = c.to.deliveries
	c.remove, c.grave, c.metric, c.alive = true, it, metricDead, c.metric
	c.answer = answer{err: fmt.Errorf("%w: it became the dead letter %s", ErrNoAnswer, it.id)}
	return true
}

// StageDelete stages in b that a message is removed, leased or not, or one that is
// quarantined. One that isn't there is ErrGone, one that another batch has ErrBusy. What
// is quarantined and has no id, StageDiscard removes.
func (q *Queue) StageDelete(b *batch.Batch, id ID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.staging(b)
	if err == nil {
		err = st.remove(id, metricDeleted)
	}
	if err != nil {
		return fmt.Errorf("queue: delete message %s: %w", id, err)
	}
	return nil
}

// +checklocks:st.q.mu
func (st *staging) remove(id ID, m *metrics.Metric) error {
	q := st.q
	it := q.index.byID[id]
	if it == nil {
		return st.removeBad(appendMessageKey(nil, id))
	}
	c, err := st.claim(it)
	if err != nil {
		return err
	}
	if c.remove {
		return ErrGone
	}
	c.remove, c.answer, c.metric = true, answer{err: fmt.Errorf("%w: it was deleted", ErrNoAnswer)}, m
	return nil
}

// StageDiscard stages in b that what is quarantined under a key of the actor is removed.
// Any other key is ErrGone.
func (q *Queue) StageDiscard(b *batch.Batch, key []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, err := q.staging(b)
	if err == nil {
		err = st.removeBad(key)
	}
	if err != nil {
		return fmt.Errorf("queue: discard %s: %w", actorstore.Describe(key), err)
	}
	return nil
}

// Discard removes what is quarantined under a key, as StageDiscard does.
func (q *Queue) Discard(ctx context.Context, key []byte) error {
	return q.commit(ctx, func(b *batch.Batch) error { return q.StageDiscard(b, key) })
}

// Delete removes messages, as StageDelete does, and returns which of them were there, in
// the order of ids. Many are removed by several commits, each within the limits of a
// batch; on an error what is returned has been removed.
func (q *Queue) Delete(ctx context.Context, ids ...ID) (removed []ID, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return q.delete(ctx, ids, func(err error) bool { return errors.Is(err, ErrGone) })
}

// delete is Delete of sorted ids, where skip says for which errors one is left out.
func (q *Queue) delete(ctx context.Context, ids []ID, skip func(error) bool) (removed []ID, err error) {
	for len(ids) > 0 {
		n := min(len(ids), q.deletesAtOnce())
		var some []ID
		err := q.commit(ctx, func(b *batch.Batch) error {
			for _, id := range ids[:n] {
				err := q.StageDelete(b, id)
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

// deletesAtOnce is how many messages one commit removes: with the metadata they fill
// one sub-batch.
func (q *Queue) deletesAtOnce() int { return max(q.actor.Limits().Entries-1, 1) }

// Purge removes the messages of the names, or all if there are none, as Delete does, but
// for those that batches have and those that come meanwhile. It returns how many.
func (q *Queue) Purge(ctx context.Context, names ...string) (n int, err error) {
	removed, err := q.delete(ctx, q.ids(names), func(err error) bool {
		return errors.Is(err, ErrGone) || errors.Is(err, ErrBusy)
	})
	return len(removed), err
}

// damaged reports whether err says that a stored message can't be understood.
func damaged(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) || errors.Is(err, actorstore.ErrNotFound)
}
