package optimistic

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// An attempt is a txn.Attempt. Its state is pinned by its first read.
type attempt struct {
	core *Core
	opts txn.AttemptOptions
	snap kv.Snapshot // nil until the first read
	// version is that of the pinned state, and since the time of pinning.
	version uint64
	since   time.Time
	closed  bool

	// ended: nothing can conflict with the attempt any more, because it has come to
	// its end or because it is too old. Guarded by the lock of the store.
	ended bool
}

var _ txn.Attempt = (*attempt)(nil)

// Attempt is txn.Transactor's.
func (c *Core) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &attempt{core: c, opts: opts}, nil
}

// tooOld reports whether the attempt has outlived its time.
func (a *attempt) tooOld() bool {
	return a.opts.MaxAge > 0 && a.opts.Now().Sub(a.since) > a.opts.MaxAge
}

// pin makes the first read's state the attempt's. Version and snapshot are taken
// together, under the lock of the commits: a commit is either in the snapshot or
// newer than the version.
func (a *attempt) pin(ctx context.Context) (err error) {
	if a.closed {
		return kv.ErrClosed
	}
	if a.snap != nil {
		return nil
	}
	s := a.core.store
	if a.opts.ReadOnly {
		a.snap, err = s.Snapshot(ctx)
		return err
	}
	s.Lock()
	defer s.Unlock()
	snap, err := s.Pin(ctx)
	if err != nil {
		return err
	}
	a.snap, a.version, a.since = snap, s.Version(), a.opts.Now()
	a.core.pin(a)
	return nil
}

func (a *attempt) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := a.pin(ctx); err != nil {
		return dst, err
	}
	return a.snap.Get(ctx, key, dst)
}

func (a *attempt) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := a.pin(ctx); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		a.snap.Scan(ctx, r)(yield)
	}
}

// Commit is txn.Attempt's.
func (a *attempt) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
	if a.closed {
		return txn.Stamp{}, kv.ErrClosed
	}
	if len(c.Ops) == 0 && len(c.Writes) == 0 {
		return txn.Stamp{}, nil
	}
	if a.opts.ReadOnly {
		return txn.Stamp{}, fmt.Errorf("optimistic: commit: %w", txn.ErrReadOnly)
	}
	s := a.core.store
	if err := s.Enter(ctx); err != nil {
		s.Record(c.ID, kv.OutcomeNotApplied)
		return txn.Stamp{}, err
	}
	defer s.Leave()
	r := a.core.submit(request{attempt: a, commit: c})
	return r.stamp, r.err
}

// Close is txn.Attempt's.
func (a *attempt) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	if a.snap == nil {
		return nil
	}
	if !a.opts.ReadOnly {
		a.core.store.Lock()
		a.ended = true
		a.core.expire()
		a.core.store.Unlock()
	}
	return a.snap.Close()
}
