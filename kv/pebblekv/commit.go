package pebblekv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// Commit applies c. See kv.Engine. The context is looked at before the commit is
// applied; once it is, Commit waits for its durability whatever happens to ctx.
// OnApply must not close the DB.
func (d *DB) Commit(ctx context.Context, c *kv.Commit) error {
	if err := d.begin(ctx); err != nil {
		return kv.NotApplied(err)
	}
	defer d.life.Leave()
	if d.readOnly {
		return kv.NotApplied(errReadOnly)
	}
	b, number, err := d.run(ctx, c)
	if bad := d.fault.Get(); bad != nil {
		return bad // and whether c was applied is in doubt
	}
	if err != nil {
		d.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return kv.NotApplied(err)
	}
	return d.finish(c, b, number)
}

// run applies c and returns its batch, which is not yet durable, and its number in the log. On an
// error of a store that isn't poisoned nothing was applied.
func (d *DB) run(ctx context.Context, c *kv.Commit) (_ *pebble.Batch, number uint64, err error) {
	size, err := measure(c)
	if err != nil {
		return nil, 0, err
	}
	if err := d.gate.Wait(ctx); err != nil {
		return nil, 0, err
	}
	// The version is read before the batch is encoded from the state at that
	// version or a later one; apply encodes it again if it was a later one.
	version := d.version.Load()
	b, e := d.newBatch(size), encodings.Get().(*encoding)
	defer encodings.Put(e)
	if err := d.encode(b, c, size, e); err != nil {
		return nil, 0, errors.Join(err, b.Close())
	}
	number, err = d.apply(c, b, size, version, e)
	return b, number, err
}

// apply evaluates the checks of c and makes b visible, atomically. On an error
// b is done with.
func (d *DB) apply(c *kv.Commit, b *pebble.Batch, size int, version uint64, e *encoding) (number uint64, err error) {
	d.commit.Lock()
	defer d.commit.Unlock()
	// A commit that waited for the lock while the store was poisoned must not go
	// on: it would be applied to nothing.
	if err := d.fault.Get(); err != nil {
		return 0, err
	}
	err = d.check(c.Checks)
	if err == nil && d.version.Load() != version && (hasRanges(c) || !d.recent.holds(e)) {
		b.Reset()
		err = d.encode(b, c, size, e)
	}
	if err != nil {
		return 0, errors.Join(err, b.Close())
	}
	if number, err = d.write(b, c, e); err != nil {
		return 0, err
	}
	// After the application: who sees the new version sees the new state.
	if now := d.version.Add(1); d.txs.Busy() {
		d.txs.Applied(c.Ops, now)
	}
	if d.fault.Get() == nil {
		d.outcomes.Record(c.ID, kv.OutcomeApplied)
	}
	return number, nil
}

// write has b, which is c as e says, be in the log and visible, and returns its number. If the log
// has no room for it nothing has happened, but b is done with; after any other error the store is
// poisoned. The commit lock is held.
func (d *DB) write(b *pebble.Batch, c *kv.Commit, e *encoding) (number uint64, err error) {
	d.recent.apply()
	if number, err = put(d, b); err != nil {
		d.recent.gaveUp()
		return 0, d.verdict(workaround.Full(errors.Join(err, b.Close())))
	}
	d.checked.landed(c)
	d.recent.landed(c, e)
	return number, nil
}

// put writes a batch, with its time, to the log and applies it. The commit lock is held.
func put(d *DB, b *pebble.Batch) (number uint64, err error) {
	if b.Empty() {
		return d.log.Last(), nil
	}
	if err := d.clock.stamp(b); err != nil {
		return 0, err
	}
	if number, err = d.log.Append(b.Repr()[seqNumBytes:]); err != nil {
		return 0, err
	}
	d.logged += int64(b.Len())
	err = d.fault.Guard(func() error {
		binary.BigEndian.PutUint64(d.number[:], number)
		if err := b.Set(numberKey, d.number[:], nil); err != nil {
			return err
		}
		return d.newest.Apply(b)
	})
	if err != nil {
		d.fault.Set(err) // it is in the log, and not in the tables
	}
	if d.logged > d.logFile/2 {
		d.logged = 0
		if d.log.Size() >= d.mostLog {
			d.gate.Shut()
		}
		d.gate.Poke()
	}
	return number, err
}

// finish does what follows when c is visible: it has its batch, with a number, be as safe as c says.
func (d *DB) finish(c *kv.Commit, b *pebble.Batch, number uint64) error {
	if c.OnApply != nil {
		c.OnApply()
	}
	// A durable commit makes all earlier ones durable, also when it changes nothing itself.
	safe := d.log.Write
	if c.Durability == kv.Durable {
		safe = d.log.Sync
	}
	if err := errors.Join(safe(number), b.Close()); err != nil {
		d.fault.Set(err)
	}
	return d.fault.Get()
}

// lookup is Pebble's Get, without the store's own rows.
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
