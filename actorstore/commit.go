package actorstore

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// Commit lands b and returns when it, and everything that was applied before it, is
// on stable storage. An Atomic batch lands whole or not at all; an Ordered one
// sub-batch after sub-batch, of which the last is waited for. b is settled exactly
// once: when it is applied, its OnCommit hooks run, else OnAbort; but a commit of a batch that
// is marked (batch.Batch.Mark) takes it back when it fails, and leaves it open. The values in b
// must not change until Commit returns. An empty b writes nothing.
//
// Refused before anything is written, with a handle that stays healthy: limits of
// the batch or of the engine (batch.ErrTooLarge and its kin), ErrQuota, unless
// b doesn't make the actor grow or is marked OverQuota, errors of Late functions and of
// reading what is replaced, and the context's while nothing is applied. An
// *batch.OrderedError says that a part of an Ordered batch landed.
//
// Another owner is ErrFenced. Any other failure of the engine, an outcome that is
// not known in the first place, is ErrPoisoned. Both are final. When b was applied
// and could not be made durable, its OnCommit hooks have run.
func (a *Actor) Commit(ctx context.Context, b *batch.Batch) error {
	return a.write(ctx, b, kv.Durable, 0)
}

// Apply is Commit without the wait: when it returns, every reader sees b, and after
// a crash b is there only if everything applied before it is there too.
func (a *Actor) Apply(ctx context.Context, b *batch.Batch) error {
	return a.write(ctx, b, kv.Applied, 0)
}

// ApplyIn is Apply in one incarnation of the engine, for a batch that follows from what
// was made durable in it: in another one nothing is written, the error wraps
// kv.ErrIncarnation, and the handle stays healthy. See kv.Commit.
func (a *Actor) ApplyIn(ctx context.Context, b *batch.Batch, in kv.Incarnation) error {
	return a.write(ctx, b, kv.Applied, in)
}

// write commits b under the commit lock; in the incarnation within, 0 for any.
func (a *Actor) write(ctx context.Context, b *batch.Batch, d kv.Durability, within kv.Incarnation) (err error) {
	if b.Settled() {
		return fmt.Errorf("actorstore: commit: %w", batch.ErrSettled)
	}
	if j := jointOf(b); j != nil {
		return j.commit(ctx, write{a, b}, d)
	}
	if err := a.acquire(ctx); err != nil {
		b.Settle(err)
		return err
	}
	f := a.store.flights.take()
	f.a, f.b, f.locked, f.durability, f.within = a, b, true, d, within
	defer func() { f.end(err) }()
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if f.Ops() == 0 {
		if !f.rowsAlone() {
			if err := a.owned(ctx, a.store.eng); err != nil {
				return err
			}
			f.settle()
			if d == kv.Durable && a.durable.Load() < a.seq.Load() {
				return a.Sync(ctx) // an empty batch is as durable as what was applied before it
			}
			return nil
		}
		f.stage(0, 0) // notes alone; or an actor without keys is forked: its head says so
		if err := f.checkSize(); err != nil {
			return err
		}
	}
	return f.fly(ctx)
}

// Drop removes everything of the actor, its head and its name too, in one durable
// commit, and closes the handle, since what others keep in memory about the actor is
// void; open the actor again to use it anew. After an error the handle is open, and
// the actor is as it was unless the handle is poisoned.
func (a *Actor) Drop(ctx context.Context) (err error) {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	f := a.store.flights.take()
	f.a, f.b, f.locked, f.durability, f.Drop = a, new(batch.Batch), true, kv.Durable, true
	defer func() { f.end(err) }()
	if !a.exists {
		a.shut()
		a.leave()
		return nil
	}
	f.stageDrop()
	f.last = true
	err = f.send(ctx, kv.Durable)
	if f.landed == 1 {
		if a.host != nil {
			a.host.Dropped(f.in)
		}
		a.leave()
	}
	return err
}

// alone commits s, durably, which is the store's again then.
func (a *Actor) alone(ctx context.Context, s *single) error {
	err := a.Commit(ctx, &s.batch)
	s.batch.Reset()
	a.store.singles.pool.Put(s)
	return err
}

// Put stores value under key. It is durable when Put returns.
func (a *Actor) Put(ctx context.Context, key, value []byte) error {
	s := a.store.singles.take()
	s.batch.Put(key, value)
	return a.alone(ctx, s)
}

// Delete removes key; a missing one isn't an error. It is durable when Delete returns.
func (a *Actor) Delete(ctx context.Context, key []byte) error {
	s := a.store.singles.take()
	s.batch.Delete(key)
	return a.alone(ctx, s)
}

// DeleteRange removes the keys in [start, end); a nil end means no upper bound. It
// is durable when DeleteRange returns.
func (a *Actor) DeleteRange(ctx context.Context, start, end []byte) error {
	s := a.store.singles.take()
	s.batch.DeleteRange(start, end)
	return a.alone(ctx, s)
}

// StageNote has the note land with b, or removes the note under key if value is nil.
// What is there is replaced unread. Of an Ordered batch, notes are in the last engine
// commit. key and value must not change until b is settled.
//
// It may be called while b is open, and by Late functions of b.
//
// Errors: errNote, and then nothing is staged.
func (a *Actor) StageNote(b *batch.Batch, key, value []byte) error {
	if len(key) == 0 || len(key) > maxNoteKey || len(value) > MaxNoteValue {
		return fmt.Errorf("%w: a key of %d bytes (limit %d), a value of %d (limit %d)",
			errNote, len(key), maxNoteKey, len(value), MaxNoteValue)
	}
	// Late functions run under the commit lock, so what they collect is of one flight.
	b.Late(func(*batch.Batch) error {
		a.notes = append(a.notes, Note{key, value})
		return nil
	})
	return nil
}

// StoreHints is SetHints with a commit of its own, which isn't waited for to be durable.
// An actor that was never written to gets none. An error is one of Apply.
func (a *Actor) StoreHints(ctx context.Context, hints []byte) (err error) {
	a.SetHints(hints)
	if err := a.acquire(ctx); err != nil {
		return err
	}
	f := a.store.flights.take()
	f.a, f.b, f.locked, f.durability = a, new(batch.Batch), true, kv.Applied
	defer func() { f.end(err) }()
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if !a.exists || a.head.Seq == 0 || a.pending.Load() == nil {
		f.settle()
		return nil
	}
	f.stage(0, 0)
	if err := f.fly(ctx); err != nil {
		return fmt.Errorf("actorstore: hints: %w", err)
	}
	return nil
}

// SetWake replaces what the store says of when the actor must be woken, in one commit that
// doesn't wait for stable storage; without one if it says so already, or if the actor doesn't
// exist. w.Tried must not change meanwhile. Errors are those of Apply.
func (a *Actor) SetWake(ctx context.Context, w Wake) error {
	var b batch.Batch
	if err := a.StageWake(&b, w); err != nil {
		return err
	}
	return a.write(ctx, &b, kv.Applied, 0)
}

// WakeBy brings forward when the actor must be woken, as batch.Batch.WakeBy does, in a commit of its own that doesn't wait for stable
// storage; without one if that changes nothing. Errors are those of Apply.
func (a *Actor) WakeBy(ctx context.Context, at time.Time) error {
	var b batch.Batch
	b.Late(func(*batch.Batch) error {
		if old := a.wake.Load(); old.by(at.UnixMilli(), a.store.millis()) != old {
			w := old.by(at.UnixMilli(), a.store.millis()).wake()
			a.rewake = &w
		}
		return nil
	})
	return a.write(ctx, &b, kv.Applied, 0)
}

// StageWake has what SetWake does land with b, whatever b.WakeBy says. It may be called while b is open.
func (a *Actor) StageWake(b *batch.Batch, w Wake) error {
	if len(w.Tried) > MaxTried {
		return fmt.Errorf("actorstore: %d versions that tried, limit %d", len(w.Tried), MaxTried)
	}
	b.Late(func(*batch.Batch) error {
		if !a.wake.Load().says(&w) {
			a.rewake = &w
		}
		return nil
	})
	return nil
}
