package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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
	err := d.prepareAndCommit(ctx, c)
	if bad := d.fault.get(); bad != nil {
		return bad
	}
	return err
}

func (d *DB) prepareAndCommit(ctx context.Context, c *kv.Commit) error {
	if d.readOnly {
		return ErrReadOnly
	}
	size, err := measure(c)
	if err == nil {
		err = d.gate.wait(ctx)
	}
	if err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return err
	}
	b, err := d.encode(c, size)
	if err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return err
	}
	if err := d.apply(c, b); err != nil {
		return err
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	if c.Durability == kv.Durable {
		if err := b.SyncWait(); err != nil {
			// The fence keeps such errors from Pebble; one that came from
			// elsewhere leaves as much doubt.
			d.fault.set(err)
			return d.fault.get()
		}
	}
	return wrap(b.Close())
}

// batchHeader is what Pebble puts before the operations of a batch.
const batchHeader = 12

// retainBytes is the largest batch buffer that is kept for reuse: one with a
// full batch of an actor's writes (976 KiB and some) has to fit.
const retainBytes = 4 << 20

// firstKey is the smallest key there can be. The empty one must never get into
// Pebble: writing a table with a block of nothing but empty keys makes v2.1.7
// panic on a goroutine of its own (in PrefixBytesBuilder.Finish), which nobody
// can recover. Package kv excludes it for that reason.
var firstKey = []byte{0}

// measure checks c against Limits and returns what its batch takes, in bytes.
func measure(c *kv.Commit) (int, error) {
	if len(c.Ops) > maxOps {
		return 0, fmt.Errorf("pebblekv: %d operations: %w", len(c.Ops), kv.ErrTooLarge)
	}
	size := 0
	for i := range c.Ops {
		o := &c.Ops[i]
		end := o.Kind == kv.OpClearRange
		switch {
		case len(o.Key) > maxKey, end && len(o.Value) > maxKey:
			return 0, fmt.Errorf("pebblekv: op %d has a key over %d bytes: %w", i, maxKey, kv.ErrTooLarge)
		case len(o.Value) > maxValue:
			return 0, fmt.Errorf("pebblekv: op %d has a value of %d bytes: %w", i, len(o.Value), kv.ErrTooLarge)
		case o.Kind > kv.OpClearRange, end && len(o.Value) == 0, !end && len(o.Key) == 0:
			return 0, fmt.Errorf("pebblekv: op %d: %w", i, kv.ErrInvalid)
		}
		if size += len(o.Key) + len(o.Value); size > maxBytes {
			return 0, fmt.Errorf("pebblekv: commit of over %d bytes: %w", maxBytes, kv.ErrTooLarge)
		}
	}
	return size + 11*len(c.Ops), nil
}

// encode copies the operations of c into a batch, outside of any lock. Pebble
// keeps a pool of batches and of their buffers up to retainBytes.
func (d *DB) encode(c *kv.Commit, size int) (*pebble.Batch, error) {
	b := d.db.NewBatchWithSize(size+batchHeader, pebble.WithMaxRetainedSizeBytes(retainBytes))
	var err error
	for i := range c.Ops {
		o := &c.Ops[i]
		switch o.Kind {
		case kv.OpSet:
			err = b.Set(o.Key, o.Value, nil)
		case kv.OpClear:
			err = b.Delete(o.Key, nil)
		case kv.OpClearRange:
			start := o.Key
			if len(start) == 0 {
				start = firstKey
			}
			if bytes.Compare(start, o.Value) < 0 {
				err = b.DeleteRange(start, o.Value, nil)
			}
		}
		if err != nil {
			return nil, errors.Join(wrap(err), b.Close())
		}
	}
	if b.Empty() && c.Durability == kv.Durable {
		// A durable commit makes all earlier ones durable, also when it changes
		// nothing itself; Pebble would skip an empty batch.
		err = b.LogData(nil, nil)
	}
	return b, wrap(err)
}

// apply evaluates the checks of c and makes b visible, atomically. On an error
// b is done with.
func (d *DB) apply(c *kv.Commit, b *pebble.Batch) error {
	d.commit.Lock()
	defer d.commit.Unlock()
	// A commit that waited for the lock while the store was poisoned must not go
	// on: it would be applied to nothing.
	if err := d.fault.get(); err != nil {
		return err
	}
	if err := d.check(c.Checks); err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return errors.Join(err, b.Close())
	}
	err := d.guard(func() error {
		if c.Durability == kv.Durable {
			return d.db.ApplyNoSyncWait(b, pebble.Sync)
		}
		return d.db.Apply(b, pebble.NoSync)
	})
	if bad := d.fault.get(); bad != nil {
		return bad
	}
	if err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return wrap(err)
	}
	d.outcomes.Record(c.ID, kv.OutcomeApplied)
	return nil
}

// check returns an error wrapping kv.ErrConflict when a check does not hold.
func (d *DB) check(checks []kv.Check) error {
	for i := range checks {
		ch := &checks[i]
		v, closer, err := d.db.Get(ch.Key)
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
