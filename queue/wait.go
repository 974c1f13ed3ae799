package queue

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// An Answer waits for the completion of one message.
//
// It lives in memory: a completion after a restart isn't told to callers from before.
// The message itself is as durable as any, so that after a restart a caller that has
// its ID, or sends again with its Key, may Expect it anew, and gets the response unless it was
// completed meanwhile (ErrNoAnswer): responses are not stored.
type Answer struct {
	of   *contents
	id   ID
	came chan answer // holds one
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
	got, err := await(ctx, a.of, a.came, nil)
	if err != nil {
		return nil, err
	}
	return got.response, got.err
}

// Close ends the waiting.
func (a *Answer) Close() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.answers.stop(a.id, a.came)
}

// Forever as a timeout means to wait without end. As a delay, or as the length of a lease, it is 292 years.
const Forever time.Duration = 1<<63 - 1

// waitFor is watch with a look that is called with the lock.
func (c *contents) waitFor(ctx context.Context, names []string, look func() bool) error {
	return c.watch(ctx, names, nil, func() (bool, error) {
		if err := c.check(ctx); err != nil {
			return false, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.due()
		return look(), nil
	})
}

// watch looks again and again: at once, and each time that a message of the names, of any if there are none, becomes visible.
// It returns when look has found something, or nothing can come any more.
func (c *contents) watch(ctx context.Context, names []string, over <-chan time.Time, look func() (found bool, err error)) error {
	l := &listener{names, make(chan struct{}, 1)}
	c.mu.Lock()
	c.waiters[l] = struct{}{} // before the look: what comes between the two is not missed
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiters, l)
	}()
	for {
		if found, err := look(); found || err != nil {
			return err
		}
		if _, err := await(ctx, c, l.woken, over); err != nil {
			return err
		}
	}
}

// await returns what comes. It ends with the context, the queue, and the actor, with their
// errors, and with errOver.
func await[T any](ctx context.Context, c *contents, comes <-chan T, over <-chan time.Time) (came T, err error) {
	var look <-chan time.Time
	if c.actor.Leased() {
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
		case <-c.closing:
			return came, ErrClosed
		case <-c.actor.Done():
			return came, cmp.Or(c.actor.Err(), error(actorstore.ErrClosed))
		case <-look:
			if err := lost(ctx, c); err != nil {
				return came, err
			}
		}
	}
}

// lost says why nothing will come any more. While the actor's owner is known, which is
// nearly always, that is a look at memory.
func lost(ctx context.Context, c *contents) error {
	err := c.actor.Owned(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.usable(); known != nil || !errors.Is(err, actorstore.ErrClosed) {
		return known // any other error may pass, and is for the next call to find
	}
	return err
}

// errOver is await's for the time that is over.
var errOver = errors.New("queue: the time is over")

// lookOut is how often a waiting call asks whether the actor is still ours, where another host
// may take it over without telling.
const lookOut = time.Second
