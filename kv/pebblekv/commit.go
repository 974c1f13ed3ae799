package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv/internal/optimistic"
	"github.com/greenroomdb/greenroom/kv/internal/outcomes"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// A committer applies commits, those of transactions, too.
type committer struct {
	*journal
	outcomes outcomes.Memory
	// version grows with every applied commit, and never falls, see loadVersion; it
	// changes under order.
	version atomic.Uint64
	// ceiling is up to which version commits of transactions may be seen, see reserve,
	// which changes it under order.
	ceiling atomic.Uint64
	txs     *optimistic.Core // guarded by order
	memory  *memory
}

// commit is DB.Commit, of a store that isn't closed.
func (w *committer) commit(ctx context.Context, c *kv.Commit) error {
	b, number, err := w.run(ctx, c)
	if bad := w.fault.Get(); bad != nil {
		return bad // and whether c was applied is in doubt
	}
	if err != nil {
		w.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return kv.NotApplied(err)
	}
	return w.finish(c, b, number)
}

// run applies c and returns its batch, which is not yet durable, and its number in the log. On an
// error of a store that isn't poisoned nothing was applied.
func (w *committer) run(ctx context.Context, c *kv.Commit) (_ *pebble.Batch, number uint64, err error) {
	size, err := measure(c)
	if err != nil {
		return nil, 0, err
	}
	if err := w.room.admit(int64(size), c.Ops); err != nil {
		return nil, 0, err
	}
	// Without room for tables the gate is closed until something is removed.
	if err := w.gate.Wait(ctx); err != nil && !(errors.Is(err, errkind.ErrNoSpace) && removes(c.Ops)) {
		return nil, 0, err
	}
	// The version is read before the batch is encoded from the state at that
	// version or a later one; apply encodes it again if it was a later one.
	version := w.version.Load()
	b, e := w.newBatch(size), encodings.Get().(*encoding)
	defer encodings.Put(e)
	if err := w.encode(b, c, size, e); err != nil {
		return nil, 0, errors.Join(err, b.Close())
	}
	number, err = w.apply(c, b, size, version, e)
	return b, number, err
}

// apply evaluates the checks of c and makes b visible, atomically. On an error
// b is done with.
func (w *committer) apply(c *kv.Commit, b *pebble.Batch, size int, version uint64, e *encoding) (number uint64, err error) {
	w.order.Lock()
	defer w.order.Unlock()
	// A commit that waited for the lock while the store was poisoned must not go
	// on: it would be applied to nothing.
	if err := w.fault.Get(); err != nil {
		return 0, err
	}
	if err = w.room.admit(int64(size), c.Ops); err == nil { // others may have used it up meanwhile
		err = w.check(c.Checks)
	}
	if err == nil && w.version.Load() != version && (hasRanges(c) || !w.memory.supposed(e)) {
		b.Reset()
		err = w.encode(b, c, size, e)
	}
	if err != nil {
		return 0, errors.Join(err, b.Close())
	}
	if number, err = w.write(b, c, e); err != nil {
		return 0, err
	}
	// The version rises after the commit is applied, so a reader that sees the new version sees the
	// new state.
	if now := w.version.Add(1); w.txs.Busy() {
		w.txs.Applied(c.Ops, now)
	}
	if w.fault.Get() == nil {
		w.outcomes.Record(c.ID, kv.OutcomeApplied)
	}
	return number, nil
}

// write writes b, the encoding e of c, to the log, applies it, and returns its number. If the log
// has no room for b nothing has happened, but b is done with; after any other error the store is
// poisoned. order is held.
func (w *committer) write(b *pebble.Batch, c *kv.Commit, e *encoding) (number uint64, err error) {
	w.memory.apply()
	if number, err = w.put(b); err != nil {
		w.memory.gaveUp()
		return 0, w.verdict(workaround.Full(errors.Join(err, b.Close())))
	}
	w.memory.landed(c, e)
	return number, nil
}

// finish does what follows when c is visible: it makes its batch, with a number, as safe as c says.
func (w *committer) finish(c *kv.Commit, b *pebble.Batch, number uint64) error {
	if c.OnApply != nil {
		c.OnApply()
	}
	w.reclaimer.applied(c.Ops)
	// A durable commit makes all earlier ones durable, also when it changes nothing itself.
	safe := w.log.Write
	if c.Durability == kv.Durable {
		safe = w.log.Sync
	}
	if err := errors.Join(safe(number), b.Close()); err != nil {
		w.fault.Set(err)
	}
	return w.fault.Get()
}

// lookup is Pebble's Get, without the store's own rows.
func (w *committer) lookup(key []byte) ([]byte, io.Closer, error) {
	if isOwn(key) {
		return nil, nil, pebble.ErrNotFound
	}
	return w.db.Get(key)
}

// check returns an error wrapping kv.ErrConflict when a check does not hold.
func (w *committer) check(checks []kv.Check) error {
	for i := range checks {
		ch := &checks[i]
		if holds, known := w.memory.holds(ch); known {
			if !holds {
				return fmt.Errorf("pebblekv: check %d: %w", i, kv.ErrConflict)
			}
			continue
		}
		v, closer, err := w.lookup(ch.Key)
		if err == pebble.ErrNotFound {
			if !ch.Absent {
				return fmt.Errorf("pebblekv: check %d: %w", i, kv.ErrConflict)
			}
			continue
		}
		if err != nil {
			return wrap(err)
		}
		holds := !ch.Absent && bytes.Equal(v, ch.Value)
		if err := closer.Close(); err != nil {
			return wrap(err)
		}
		if !holds {
			return fmt.Errorf("pebblekv: check %d: %w", i, kv.ErrConflict)
		}
	}
	return nil
}
