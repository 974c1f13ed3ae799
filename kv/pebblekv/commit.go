package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// Commit applies c. See kv.Engine. The context is looked at before the commit is
// applied; once it is, Commit waits for its durability whatever happens to ctx.
// OnApply must not close the DB.
func (d *DB) Commit(ctx context.Context, c *kv.Commit) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.life.leave()
	if d.readOnly {
		return errReadOnly
	}
	b, err := d.run(ctx, c)
	if bad := d.fault.get(); bad != nil {
		return bad // and whether c was applied is in doubt
	}
	if err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return err
	}
	return d.finish(c, b)
}

// run applies c and returns its batch, which is not yet durable. On an error of
// a store that isn't poisoned nothing was applied.
func (d *DB) run(ctx context.Context, c *kv.Commit) (*pebble.Batch, error) {
	size, err := measure(c)
	if err != nil {
		return nil, err
	}
	if err := d.gate.wait(ctx); err != nil {
		return nil, err
	}
	// The version is read before the batch is encoded from the state at that
	// version or a later one; apply encodes it again if it was a later one.
	version := d.version.Load()
	b := d.newBatch(size)
	if err := d.encode(b, c, size); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := d.apply(c, b, size, version); err != nil {
		return nil, err
	}
	return b, nil
}

// apply evaluates the checks of c and makes b visible, atomically. On an error
// b is done with.
func (d *DB) apply(c *kv.Commit, b *pebble.Batch, size int, version uint64) error {
	d.commit.Lock()
	defer d.commit.Unlock()
	// A commit that waited for the lock while the store was poisoned must not go
	// on: it would be applied to nothing.
	if err := d.fault.get(); err != nil {
		return err
	}
	err := d.check(c.Checks)
	if err == nil && d.version.Load() != version && hasRanges(c) {
		b.Reset()
		err = d.encode(b, c, size)
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	if err := d.write(b, c.Durability == kv.Durable); err != nil {
		return wrap(err)
	}
	d.checked.landed(c)
	// After the application: who sees the new version sees the new state.
	if now := d.version.Add(1); d.txs.Busy() {
		d.txs.Applied(c.Ops, now)
	}
	if d.fault.get() == nil {
		d.outcomes.Record(c.ID, kv.OutcomeApplied)
	}
	return nil
}

// finish does what follows when c is visible.
func (d *DB) finish(c *kv.Commit, b *pebble.Batch) error {
	if c.OnApply != nil {
		c.OnApply()
	}
	var err error
	if c.Durability == kv.Durable {
		err = b.SyncWait()
	}
	if err = errors.Join(err, b.Close()); err != nil {
		// The fence keeps failures of the disk from Pebble, so this is another;
		// it leaves as much doubt.
		d.fault.set(err)
	}
	return d.fault.get()
}

// lookup is Pebble's Get, without the row that isn't anybody's.
func (d *DB) lookup(key []byte) ([]byte, io.Closer, error) {
	if isOwn(key) {
		return nil, nil, pebble.ErrNotFound
	}
	return d.db.Get(key)
}

// check returns an error wrapping kv.ErrConflict when a check does not hold.
func (d *DB) check(checks []kv.Check) error {
	for i := range checks {
		ch := &checks[i]
		if holds, known := d.checked.holds(ch); known {
			if !holds {
				return fmt.Errorf("pebblekv: check %d: %w", i, kv.ErrConflict)
			}
			continue
		}
		v, closer, err := d.lookup(ch.Key)
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
