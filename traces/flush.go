package traces

import (
	"context"
	"fmt"
	"slices"
)

// A flush is a call that waits until chunks are written.
type flush struct {
	upto  uint64 // all that were cut up to this one
	tried bool   // an attempt has begun since
	done  chan error
}

// Flush writes everything that was recorded before the call, and returns when it is on
// stable storage. An error of the store ends the wait, not the attempts: what was
// recorded stays in its place, and the next Flush tries again at once. So does the
// context's.
//
// Errors: ErrClosed, ErrDropped, ErrBusy, and those of actorstore.
func (t *Traces) Flush(ctx context.Context) error {
	f, err := t.beginFlush()
	if err != nil {
		return err
	}
	if f != nil {
		select {
		case err = <-f.done:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			t.endFlush(f)
			return fmt.Errorf("traces: flush: %w", err)
		}
	}
	return t.sync(ctx)
}

// beginFlush cuts what is being filled. The flush is nil if nothing waits to be written.
func (t *Traces) beginFlush() (*flush, error) {
	t.mu.Lock()
	defer t.unlock()
	if err := t.usable(); err != nil {
		return nil, err
	}
	t.cutAll()
	if len(t.queue) == 0 {
		return nil, nil
	}
	f := &flush{upto: t.seq, done: make(chan error, 1)}
	t.flushes = append(t.flushes, f)
	t.settleFlushes(0, nil) // all of it may be staged by others
	t.kick()
	return f, nil
}

// cutAll cuts what is being filled, the oldest bucket first: the newest chunk is then the
// one that knows which spans run.
//
// +checklocks:t.mu
func (t *Traces) cutAll() {
	t.heal()
	slices.SortFunc(t.open, func(a, b *builder) int { return int(min(max(a.bucket.start-b.bucket.start, -1), 1)) })
	for len(t.open) > 0 {
		t.cut(t.open[0])
	}
}

func (t *Traces) endFlush(f *flush) {
	t.mu.Lock()
	defer t.unlock()
	if i := slices.Index(t.flushes, f); i >= 0 {
		t.flushes = slices.Delete(t.flushes, i, i+1)
	}
}

// sync waits until what was applied is on stable storage.
func (t *Traces) sync(ctx context.Context) error {
	t.mu.Lock()
	written, synced := t.written, t.synced
	t.unlock()
	if written == synced {
		return nil
	}
	if err := t.actor.Sync(ctx); err != nil {
		return fmt.Errorf("traces: flush: %w", err)
	}
	t.mu.Lock()
	t.synced = max(t.synced, written)
	t.unlock()
	return nil
}

// settleFlushes ends the waits for chunks that are stored. A wait for the chunk with the
// number dropped, if that isn't 0, ends with err.
//
// +checklocks:t.mu
func (t *Traces) settleFlushes(dropped uint64, err error) {
	t.flushes = slices.DeleteFunc(t.flushes, func(f *flush) bool {
		if dropped != 0 && f.upto >= dropped {
			t.later(func() { f.done <- err })
			return true
		}
		var busy error
		for _, p := range t.queue {
			switch {
			case p.seq > f.upto:
			case p.state == staged:
				busy = ErrBusy
			default:
				return false
			}
		}
		t.later(func() { f.done <- busy })
		return true
	})
}

// failFlushes tells those that wait for an attempt that began since they came.
//
// +checklocks:t.mu
func (t *Traces) failFlushes(err error) {
	t.flushes = slices.DeleteFunc(t.flushes, func(f *flush) bool {
		if f.tried {
			t.later(func() { f.done <- err })
		}
		return f.tried
	})
}
