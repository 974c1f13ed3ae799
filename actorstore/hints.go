package actorstore

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// Hints say what of an actor is read first when it is opened, so that one read can fetch
// it. They lie beside the head, in a row of their own that is read with it; what they
// mean is the business of their writer. They are never more than hints: nothing is
// wrong about an actor whose hints are old, or gone.

// MaxHints bounds the hints of an actor, in bytes: every listing of actors reads them.
const MaxHints = 2048

// hintsBeside is the size of a commit, in writes, up to which hints travel with it: a
// larger one may need all the room that the engine has.
const hintsBeside = 64

// Hints returns the hints that are stored, nil for none. They must not be changed.
func (a *Actor) Hints() []byte {
	if p := a.hints.Load(); p != nil {
		return *p
	}
	return nil
}

// SetHints replaces the actor's hints with the next commit of the handle. It writes
// nothing by itself, and without another commit they stay what they are. The handle
// keeps hints, which must not change. More than MaxHints bytes are cut to none.
func (a *Actor) SetHints(hints []byte) {
	if len(hints) > MaxHints {
		hints = nil
	}
	a.pending.Store(&hints)
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
