package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

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

// lookOut is how often a waiting call asks whether the actor is still ours, where another host
// may take it over without telling.
const lookOut = time.Second

// errOver is await's for the time that is over.
var errOver = errors.New("queue: the time is over")

// await returns what comes. It ends with the context, the queue, and the actor, with their
// errors, and with errOver.
func await[T any](ctx context.Context, q *Queue, comes <-chan T, over <-chan time.Time) (came T, err error) {
	var look <-chan time.Time
	if q.actor.Leased() {
		ticker := time.NewTicker(lookOut)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case came = <-comes:
			return came, nil
		case <-over:
			return came, errOver
		case <-ctx.Done():
			return came, ctx.Err()
		case <-q.closing:
			return came, ErrClosed
		case <-q.actor.Done():
			return came, cmp.Or(q.actor.Err(), error(actorstore.ErrClosed))
		case <-look:
			if err := lost(ctx, q); err != nil {
				return came, err
			}
		}
	}
}

// lost says why nothing will come any more. While the actor's owner is known, which is
// nearly always, that is a look at memory.
func lost(ctx context.Context, q *Queue) error {
	err := q.actor.Owned(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.usable(); known != nil || !errors.Is(err, actorstore.ErrClosed) {
		return known // any other error may pass, and is for the next call to find
	}
	return err
}

// A listener is a call that waits for a message to become visible.
type listener struct {
	names []string      // nil: any
	woken chan struct{} // holds one token
}

func (q *Queue) listen(names []string) *listener {
	l := &listener{names, make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[l] = struct{}{}
	return l
}

func (q *Queue) unlisten(l *listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiters, l)
}

// wake wakes all that wait for a name: the first to look gets the message, and the
// others go on waiting.
//
// +checklocks:q.mu
func (q *Queue) wake(name string) {
	for l := range q.waiters {
		if len(l.names) == 0 || slices.Contains(l.names, name) {
			l.wake()
		}
	}
}

// +checklocks:q.mu
func (q *Queue) wakeAll() {
	for l := range q.waiters {
		l.wake()
	}
	for id := range q.answers {
		q.answer(id, answer{err: errors.Join(q.usable(), ErrNoAnswer)})
	}
}

func (l *listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it is awake, and hasn't looked yet
	}
}
