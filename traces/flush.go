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

// flush writes everything that was recorded before the call, and returns when it is on
// stable storage. An error of the store ends the wait, not the attempts: what was
// recorded stays in its place, and the next Flush tries again at once. So does the
// context's.
//
// Errors: ErrClosed, ErrDropped, ErrBusy, and those of actorstore.
func (st *store) flush(ctx context.Context) error {
	f, err := st.beginFlush()
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
			st.endFlush(f)
			return fmt.Errorf("traces: flush: %w", err)
		}
	}
	return st.sync(ctx)
}

// beginFlush cuts what is being filled. The flush is nil if nothing waits to be written.
func (st *store) beginFlush() (*flush, error) {
	st.mu.Lock()
	defer st.unlock()
	if err := st.usable(); err != nil {
		return nil, err
	}
	st.cutAll()
	if len(st.queue) == 0 {
		return nil, nil
	}
	f := &flush{upto: st.seq, done: make(chan error, 1)}
	st.flushes = append(st.flushes, f)
	st.settleFlushes(0, nil) // all of it may be staged by others
	st.kick()
	return f, nil
}

// cutAll cuts what is being filled, the oldest bucket first: the newest chunk is then the
// one that knows which spans run.
//
// +checklocks:st.mu
func (st *store) cutAll() {
	st.heal()
	slices.SortFunc(st.open, func(a, b *builder) int { return int(min(max(a.bucket.start-b.bucket.start, -1), 1)) })
	for len(st.open) > 0 {
		st.cut(st.open[0])
	}
}

func (st *store) endFlush(f *flush) {
	st.mu.Lock()
	defer st.unlock()
	if i := slices.Index(st.flushes, f); i >= 0 {
		st.flushes = slices.Delete(st.flushes, i, i+1)
	}
}

// sync waits until what was applied is on stable storage.
func (st *store) sync(ctx context.Context) error {
	st.mu.Lock()
	written, synced := st.written, st.synced
	st.unlock()
	if written == synced {
		return nil
	}
	if err := st.actor.Sync(ctx); err != nil {
		return fmt.Errorf("traces: flush: %w", err)
	}
	st.mu.Lock()
	st.synced = max(st.synced, written)
	st.unlock()
	return nil
}

// settleFlushes ends the waits for chunks that are stored. A wait for the chunk with the
// number dropped, if that isn't 0, ends with err.
//
// +checklocks:st.mu
func (st *store) settleFlushes(dropped uint64, err error) {
	st.flushes = slices.DeleteFunc(st.flushes, func(f *flush) bool {
		if dropped != 0 && f.upto >= dropped {
			st.later(func() { f.done <- err })
			return true
		}
		var busy error
		for _, p := range st.queue {
			switch {
			case p.seq > f.upto:
			case p.state == staged:
				busy = ErrBusy
			default:
				return false
			}
		}
		st.later(func() { f.done <- busy })
		return true
	})
}

// failFlushes tells those that wait for an attempt that began since they came.
//
// +checklocks:st.mu
func (st *store) failFlushes(err error) {
	st.flushes = slices.DeleteFunc(st.flushes, func(f *flush) bool {
		if f.tried {
			st.later(func() { f.done <- err })
		}
		return f.tried
	})
}
