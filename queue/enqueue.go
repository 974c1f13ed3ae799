package queue

import (
	"context"
	"fmt"
	"time"
)

// Enqueue stores a message behind all others, durably, and returns its ID.
//
// Errors: *FullError, *SizeError, *InvalidError, ErrUnknownName, ErrKeysFull, ErrPlain,
// ErrNoIDs, and those of actorstore.Actor.Commit.
func (q *Queue) Enqueue(ctx context.Context, s Send) (ID, error) {
	w := q.call((*call).enqueue)
	defer q.release(w)
	w.Value.send = s
	if err := q.retryKeys(ctx, func() error { return q.together(ctx, w) }); err != nil {
		return 0, err
	}
	return w.Value.id, nil
}

// EnqueueAll stores messages in one commit: all, in that order, or none.
func (q *Queue) EnqueueAll(ctx context.Context, sends []Send) (ids []ID, err error) {
	if len(sends) == 0 {
		return nil, q.check(ctx)
	}
	stage := func(tx *Tx) error {
		ids = ids[:0]
		for _, s := range sends {
			id, err := tx.Enqueue(s)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	}
	err = q.retryKeys(ctx, func() error { return q.commit(ctx, stage) })
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Expect begins to wait for the completion of a message that is stored, or staged in a
// batch: expected before that batch is committed, its completion can't be missed. One
// that is neither is ErrNoAnswer.
func (q *Queue) Expect(id ID) (*Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.usable(); err != nil {
		return nil, err
	}
	if q.index.byID[id] == nil && !q.staged(id) {
		return nil, fmt.Errorf("queue: expect message %s: %w", id, ErrNoAnswer)
	}
	a := &Answer{&q.contents, id, make(chan answer, 1)}
	q.answers[id] = append(q.answers[id], a.came)
	return a, nil
}

// EnqueueAndWait is Enqueue, and waits for the response with which the message is completed. Its
// completion is never missed, however fast it comes. When the time is over the error is
// ErrTimedOut, and the message stays in the queue; with a timeout of 0 or less it is that
// at once, and nothing is enqueued. The other errors are those of Enqueue and Answer.Wait.
//
// With a Key that is in use it waits for the message that was sent with it. What it waits
// for outlives a restart as far as Answer says.
func (q *Queue) EnqueueAndWait(ctx context.Context, s Send, timeout time.Duration) (Raw, error) {
	if timeout <= 0 {
		return nil, ErrTimedOut
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	end := time.Now().Add(min(timeout, maxTimeout))
	a, err := q.enqueueExpected(ctx, s)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	// Only now: a commit that is cut off would leave open whether the message is there.
	ctx, cancel := context.WithDeadlineCause(ctx, end, ErrTimedOut)
	defer cancel()
	response, err := a.Wait(ctx)
	if err != nil && err == ctx.Err() && context.Cause(ctx) == ErrTimedOut {
		err = ErrTimedOut
	}
	return response, err
}

// enqueueExpected is Enqueue with an Answer that is there before the commit.
func (q *Queue) enqueueExpected(ctx context.Context, s Send) (a *Answer, err error) {
	err = q.retryKeys(ctx, func() error {
		return q.settle(ctx, func(_ *call, tx *Tx) error {
			id, err := tx.Enqueue(s)
			if err == nil {
				a, err = q.Expect(id)
			}
			return err
		})
	})
	if err != nil && a != nil {
		a.Close()
	}
	return a, err
}

// maxTimeout keeps what is added to a time from wrapping around.
const maxTimeout = 100 * 365 * 24 * time.Hour
