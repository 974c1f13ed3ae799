package actorstore

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/check"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
)

// A View is a Snapshot of an actor that needn't be owned: looking disturbs no owner.
type View struct {
	*Snapshot
	info  ActorInfo
	hints []byte
	store *Store
}

// Info returns what the store has recorded about the actor.
func (v *View) Info() ActorInfo { return v.info }

// Hints returns the actor's hints, nil for none. They must not be changed.
func (v *View) Hints() []byte { return v.hints }

// Far says whether each read of the View crosses a network.
func (v *View) Far() bool { return v.store.engLimits.Far }

// Preload is an Actor's, but keeps nothing: what is read of a View is each's to keep.
func (v *View) Preload(ctx context.Context, ranges []KeyRange, each func(Entry) error) error {
	if err := v.state.Err(); err != nil {
		return err
	}
	return reads.Preload(ctx, &v.state.Rows, rowRanges(&v.state.Rows, ranges), eachRow(each))
}

// Check is Store.CheckActor of the state that the view shows.
func (v *View) Check(ctx context.Context) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		if err := v.state.Err(); err != nil {
			yield(Finding{}, err)
			return
		}
		checkState(ctx, &check.State{Src: v.state.Rows.Source, Only: (*layout.ID)(&v.info.ID), Limits: v.store.limits}, yield)
	}
}
