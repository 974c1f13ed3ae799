package actorstore

import (
	"context"
	"fmt"

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
		if len(a.notes) == 0 && !besideOf(f.b).writes() && (a.rewake == nil || !a.exists || a.hidden) && (!a.forking || a.hidden) {
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
			a.host.Dropped()
		}
		a.leave()
	}
	return err
}
