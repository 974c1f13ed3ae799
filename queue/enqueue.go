package queue

import (
	"context"
	"fmt"
)

// Enqueue stores a message behind all others, durably, and returns its ID.
//
// Errors: *FullError, *SizeError, *InvalidError, ErrUnknownName, ErrKeysFull, ErrPlain,
// ErrNoIDs, and those of actorstore.Actor.Commit.
func (q *Queue) Enqueue(ctx context.Context, s Send) (id ID, err error) {
	err = q.retryKeys(ctx, func(tx *Tx) (err error) {
		id, err = tx.Enqueue(s)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

// EnqueueAll stores messages in one commit: all, in that order, or none.
func (q *Queue) EnqueueAll(ctx context.Context, sends []Send) (ids []ID, err error) {
	if len(sends) == 0 {
		return nil, q.check(ctx)
	}
	err = q.retryKeys(ctx, func(tx *Tx) error {
		ids = ids[:0]
		for _, s := range sends {
			id, err := tx.Enqueue(s)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
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
	it, err := tx.admit(r)
	if err != nil {
		return 0, err
	}
	if k != nil {
		q.keys.take(&tx.keys, k, it.id, after(r.created, q.opts.KeyWindow))
	}
	return it.id, nil
}

// admit adds a message if there is room.
//
// +checklocks:tx.q.mu
func (tx *Tx) admit(r *record) (*item, error) {
	q := tx.q
	n := len(q.index.byID) + q.reserved
	if limit := q.opts.MaxMessages; limit >= 0 && n >= limit && n-removed(tx.changes) >= limit {
		return nil, &FullError{limit}
	}
	return tx.add(r, false)
}

// removed returns how many messages the changes remove, in whose place others may come.
func removed(changes []*change) (n int) {
	for _, c := range changes {
		if c.remove && c.grave == nil {
			n++
		}
	}
	return n
}
