package greenroom_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestUpdateOutcome: a failure behind the commit leaves all of the transaction or nothing,
// a handle that is of no more use, and an actor that can be opened again.
func TestUpdateOutcome(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		rule faultkv.Rule
		want error
		has  string
	}{
		{"before the commit", faultkv.Rule{Point: faultkv.BeforeCommit, Err: boom}, greenroom.ErrPoisoned, has(1, "old")},
		{"behind the commit", faultkv.Rule{Point: faultkv.AfterApply, Err: boom}, greenroom.ErrPoisoned, has(2, "new")},
		{"unknown", faultkv.Rule{Point: faultkv.AfterApply, Err: greenroom.ErrUnknownOutcome}, greenroom.ErrUnknownOutcome, has(2, "new")},
		{"not durable", faultkv.Rule{Point: faultkv.AfterCommit, Err: boom}, greenroom.ErrPoisoned, has(2, "new")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			r.update(t, create)
			r.engine.Fail(tt.rule)
			err := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return write(tx, "new") })
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			r.engine.Heal()
			if err := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }); !errors.Is(err, greenroom.ErrPoisoned) {
				t.Errorf("the next transaction: %v, want %v", err, greenroom.ErrPoisoned)
			}
			select {
			case <-r.actor.Done():
			default:
				t.Error("the handle says that it can be used")
			}
			r.open(t)
			if got := r.holds(t); got != tt.has {
				t.Errorf("the actor has %s, want %s", got, tt.has)
			}
		})
	}
}

// TestUpdateNoSpace: an engine that has no room refuses a transaction and nothing else: what is there can be read
// meanwhile, and once there is room the same handle goes on.
func TestUpdateNoSpace(t *testing.T) {
	r := newRig(t, batch.Limits{AtomicBatches: envlimits.Unlimited})
	r.update(t, create)
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(greenroom.ErrNoSpace), Times: faultkv.Forever})
	for range 3 {
		err := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return write(tx, "new") })
		wantErr(t, "Update", err, greenroom.ErrNoSpace)
		if got := r.holds(t); got != has(1, "old") {
			t.Errorf("the actor has %s, want %s", got, has(1, "old"))
		}
	}
	r.engine.Heal()
	r.update(t, func(tx *greenroom.Tx) error { return write(tx, "new") })
	if got := r.holds(t); got != has(2, "new") {
		t.Errorf("with room again the actor has %s, want %s", got, has(2, "new"))
	}
}
