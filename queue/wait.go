package queue

import (
	"context"
	"fmt"
	"time"
)

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
	q.answers[id] = append(q.answers[id], a.came)
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
	a.q.mu.Lock()
	defer a.q.mu.Unlock()
	a.q.answers.stop(a.id, a.came)
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

// WaitFor returns when a message of one of the names, or of any name if there are none,
// is visible; the first receiver may have it. It returns the errors of the context and of the
// queue.
func (q *Queue) WaitFor(ctx context.Context, names ...string) error {
	return waitUntil(ctx, q, names, func() bool { return q.index.first(names) != nil })
}

// WaitForOther is WaitFor of a message that has none of the names, and returns the name
// that it has.
func (q *Queue) WaitForOther(ctx context.Context, names ...string) (name string, err error) {
	err = waitUntil(ctx, q, nil, func() (visible bool) {
		name, visible = q.index.other(names)
		return visible
	})
	return name, err
}

// waitUntil returns when look, which is called with the lock, has found what it looks for:
// messages of the names, of any if there are none.
func waitUntil(ctx context.Context, q *Queue, names []string, look func() bool) error {
	l := q.listen(names) // before the look
	defer q.unlisten(l)
	for {
		if err := q.check(ctx); err != nil {
			return err
		}
		q.mu.Lock()
		q.due()
		visible := look()
		q.mu.Unlock()
		if visible {
			return nil
		}
		if _, err := await(ctx, q, l.woken, nil); err != nil {
			return err
		}
	}
}
