package greenroom_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
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

// TestViewOfLost: a handle shows no state that lacks what it has committed, after a server that knows less has taken over.
func TestViewOfLost(t *testing.T) {
	for lost, want := range []error{nil, greenroom.ErrUnknownOutcome} {
		server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
		r := newRigOn(t, server, batch.Limits{})
		for _, value := range []string{"one", "two"} {
			r.update(t, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte(value)) })
		}
		server.Failover(lost)
		err := r.actor.View(ctx, func(v *greenroom.View) error {
			if value, err := v.Get([]byte("k")); err != nil || string(value) != "two" {
				t.Errorf("%d are lost: the handle shows %q, %v", lost, value, err)
			}
			return nil
		})
		if !errors.Is(err, want) {
			t.Errorf("%d are lost: %v, want %v", lost, err, want)
		}
	}
}

// TestUpdateNoSpace: an engine that has no room refuses a transaction, at whichever of its commits, and nothing else: what is
// there can be read meanwhile, but for an actor with parts of a transaction in its store, and once there is room the same
// handle goes on.
func TestUpdateNoSpace(t *testing.T) {
	for name, blobs := range map[string]int{"one commit": 0, "in parts": 600} {
		t.Run(name, func(t *testing.T) {
			more := func(tx *greenroom.Tx) error {
				err := write(tx, "new")
				if err == nil && blobs > 0 {
					_, err = tx.Exec("create table blobs(b)")
				}
				if err == nil && blobs > 0 {
					_, err = tx.Exec("insert into blobs select randomblob(3000) from generate_series(1, ?)", blobs)
				}
				return err
			}
			nth, hits := 0, 1
			for ; hits > 0; nth++ {
				r := newRig(t, batch.Limits{AtomicBatches: envlimits.Unlimited})
				r.update(t, create)
				fault := r.engine.Fail(faultkv.Rule{
					Point: faultkv.BeforeCommit, Err: kv.NotApplied(greenroom.ErrNoSpace), Skip: nth, Times: faultkv.Forever,
				})
				err := r.actor.Update(ctx, more)
				if hits = fault.Hits(); hits == 0 {
					must(t, err)
					break
				}
				wantErr(t, "Update", err, greenroom.ErrNoSpace)
				if nth == 0 && r.holds(t) != has(1, "old") {
					t.Errorf("meanwhile the actor has %s, want %s", r.holds(t), has(1, "old"))
				}
				r.engine.Heal()
				if got := r.holds(t); got != has(1, "old") {
					t.Errorf("refused at commit %d the actor has %s, want %s", nth, got, has(1, "old"))
				}
				r.update(t, more)
				if got := r.holds(t); got != has(2, "new") {
					t.Errorf("refused at commit %d and then not, the actor has %s, want %s", nth, got, has(2, "new"))
				}
			}
			if inParts := nth > 1; inParts != (blobs > 0) {
				t.Errorf("the transaction is %d commits", nth)
			}
		})
	}
}
