package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// An answer is what a caller that waits for a message gets.
type answer struct {
	response Raw
	err      error
}

// An Answer waits for the completion of one message.
//
// It lives in memory: a completion after a restart isn't told to callers from before.
// The message itself is as durable as any, so that after a restart a caller that has
// its ID, or sends again with its Key, may Expect it anew, and gets the response unless it was
// completed meanwhile (ErrNoAnswer): responses are not stored.
type Answer struct {
	q    *Queue
	id   ID
	came chan answer // holds one
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
	a := &Answer{q, id, make(chan answer, 1)}
	q.answers[id] = append(q.answers[id], a)
	return a, nil
}

// Wait returns the response, once: a second call waits for nothing. It comes when the
// completion is on stable storage; if that fails, the actor's error comes. It ends with the
// context, with its error, and then may be called again; with the queue, with ErrClosed;
// and with ErrNoAnswer when an answer can't come any more. The response is the caller's,
// and shared by all that wait for the message: it must not be changed.
func (a *Answer) Wait(ctx context.Context) (Raw, error) {
	select {
	case got := <-a.came: // what came in time counts
		return got.response, got.err
	default:
	}
	got, err := await(ctx, a.q, a.came, nil)
	if err != nil {
		return nil, err
	}
	return got.response, got.err
}

// Close ends the waiting.
func (a *Answer) Close() {
	q := a.q
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := slices.DeleteFunc(q.answers[a.id], func(o *Answer) bool { return o == a })
	if q.answers[a.id] = rest; len(rest) == 0 {
		delete(q.answers, a.id)
	}
}

// answer tells all that wait for a message.
//
// +checklocks:q.mu
func (q *Queue) answer(id ID, got answer) {
	for _, a := range q.answers[id] {
		a.came <- got // there is room: it is the only one
	}
	delete(q.answers, id)
}

// A told is what some learn when it is on stable storage.
type told struct {
	who  []*Answer
	what answer
}

// tell tells what has become of a commit that was applied: that it is durable, or why
// that can't be known.
func tell(all []told, err error) {
	for _, t := range all {
		if err != nil {
			t.what = answer{err: err}
		}
		for _, a := range t.who {
			a.came <- t.what // there is room: it is the only one
		}
	}
}

// tellLater is tell for a caller's batch: the queue isn't told whether and when that gets
// durable. With the next sync it is.
//
// +checklocks:q.mu
func (q *Queue) tellLater(all []told) {
	switch {
	case len(all) == 0:
	case !q.works.Enter():
		tell(all, ErrClosed)
	default:
		go func() {
			defer q.works.Leave()
			err := q.actor.Sync(q.ctx)
			if q.ctx.Err() != nil {
				err = ErrClosed
			}
			tell(all, err)
		}()
	}
}

// Forever as a timeout means to wait without end. As a delay, or as the length of a lease, it is 292 years.
const Forever time.Duration = 1<<63 - 1

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

// maxTimeout keeps what is added to a time from wrapping around.
const maxTimeout = 100 * 365 * 24 * time.Hour

// enqueueExpected is Enqueue with an Answer that is there before the commit.
func (q *Queue) enqueueExpected(ctx context.Context, s Send) (a *Answer, err error) {
	err = q.retryKeys(ctx, func(tx *Tx) error {
		id, err := tx.Enqueue(s)
		if err == nil {
			a, err = q.Expect(id)
		}
		return err
	})
	if err != nil && a != nil {
		a.Close()
	}
	return a, err
}
