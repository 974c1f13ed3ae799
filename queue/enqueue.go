package queue

import (
	"context"
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
