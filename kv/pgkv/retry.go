package pgkv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A retry is how long and how often something is tried again.
type retry struct {
	db    *DB
	until time.Time
	tries int
	last  error
}

func (db *DB) retry() *retry { return &retry{db: db, until: time.Now().Add(db.opts.RetryFor)} }

// Pauses between tries, before they are spread: a deadlock or a server that is just
// going down is over soon, a failover takes seconds.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// again waits before the next try after err, an error that may not come again. If the time
// for retries is over, it returns the error that the call returns.
func (r *retry) again(ctx context.Context, err error) error {
	r.last = err
	if r.db.opts.RetryFor < 0 || time.Now().Add(r.next()).After(r.until) {
		return r.exhausted()
	}
	return r.pause(ctx, err)
}

// next returns about how long the next pause is.
func (r *retry) next() time.Duration { return min(firstPause<<min(r.tries, 10), lastPause) }

// pause waits before the next try after err, however many there were. Its errors are
// those of ctx, and kv.ErrClosed.
func (r *retry) pause(ctx context.Context, err error) error {
	pause := r.next()
	pause = pause/2 + rand.N(pause)
	r.tries++
	r.db.opts.Logger.Debug("postgres: trying again", "error", clean(err), "try", r.tries)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.db.life.closing:
		return kv.ErrClosed
	}
}

func (r *retry) exhausted() error {
	return fmt.Errorf("%w: %w", ErrUnavailable, clean(r.last))
}

// worth reports whether a request that only reads, or was refused whole, can be
// answered by another connection.
func worth(ctx context.Context, err error) bool {
	var lost *lostError
	return ctx.Err() == nil && (errors.As(err, &lost) || passing(code(err)))
}

// call runs fn with a connection of the pool until it succeeds, or fails for a reason
// that won't go away. fn must be something that can be done twice.
func (db *DB) call(ctx context.Context, p *pool, fn func(context.Context, *conn) error) error {
	r := db.retry()
	for {
		err := db.callOnce(ctx, p, fn)
		if err == nil || !worth(ctx, err) {
			return err
		}
		if err := r.again(ctx, err); err != nil {
			return err
		}
	}
}

// callOnce runs fn with a connection of the pool. A lost connection is a lostError, a
// context that ended its error.
func (db *DB) callOnce(ctx context.Context, p *pool, fn func(context.Context, *conn) error) error {
	c, err := db.take(ctx, p)
	if err != nil {
		return err
	}
	defer p.give(c)
	// The driver closes a connection whose context ends in the middle of a request.
	limited, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	db.trips.Add(1)
	return verdict(ctx, c, fn(limited, c))
}

// take takes a connection for one request.
func (db *DB) take(ctx context.Context, p *pool) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	c, err := p.take(limited, nil)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, &lostError{err}
	}
	return c, err
}

// verdict is what an error of a request on c means, whose caller's context is ctx.
func verdict(ctx context.Context, c *conn, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && code(err) == "":
		return ctx.Err()
	case code(err) == "" && c.bad:
		return &lostError{err}
	}
	return err
}
