package actorstore_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestDoubt: the next handle of an actor after a failure learns what became of the
// commit that failed.
func TestDoubt(t *testing.T) {
	lost := errors.Join(errTest, kv.ErrUnknownOutcome)
	for _, tt := range []struct {
		name   string
		point  faultkv.Point
		want   kv.Outcome
		stored string
	}{
		{"lost request", faultkv.BeforeCommit, kv.OutcomeNotApplied, "old"},
		{"lost acknowledgement", faultkv.AfterCommit, kv.OutcomeApplied, "new"},
	} {
		for _, existed := range []bool{true, false} {
			for _, remembers := range []bool{true, false} {
				t.Run(tt.name, func(t *testing.T) {
					eng := faultkv.New(memkv.New())
					var over kv.Engine = eng
					if !remembers {
						over = forgetful{eng}
					}
					s := openStore(t, over, batch.Limits{})
					a := openActor(t, s)
					if a.Doubt() != nil {
						t.Errorf("a new actor is in doubt: %+v", a.Doubt())
					}
					stored := tt.stored
					if existed {
						must(t, a.Put(ctx, user("k"), []byte("old")))
					} else if stored == "old" {
						stored = ""
					}
					eng.Hook(func(op faultkv.Op) error {
						if op.Point == tt.point {
							return lost
						}
						return nil
					})
					err := a.Put(ctx, user("k"), []byte("new"))
					var doubt *actorstore.DoubtError
					if !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) || !errors.As(err, &doubt) || doubt.Actor != testID {
						t.Fatalf("got %v", err)
					}
					eng.Hook(nil)
					if tt.want == kv.OutcomeApplied {
						if o, err := s.Outcome(ctx, testID, doubt.Commit); o != tt.want || err != nil {
							t.Errorf("Store.Outcome: got %v, %v, want %v", o, err, tt.want)
						}
					}
					must(t, a.Close())
					a = openActor(t, s)
					d := a.Doubt()
					want := tt.want
					if want == kv.OutcomeNotApplied && !existed && remembers {
						// The engine never saw it, and a head to go by is missing: another
						// owner might have come, dropped the actor, and gone.
						want = kv.OutcomeUnknown
					}
					if d == nil || d.Outcome != want || d.Commit != doubt.Commit {
						t.Errorf("got %+v, want %v of %x", d, want, doubt.Commit)
					}
					if got, _ := get(t, a, user("k")); got != stored {
						t.Errorf("stored is %q, want %q", got, stored)
					}
					must(t, a.Put(ctx, user("k"), nil))
					must(t, a.Close())
					if d := openActor(t, s).Doubt(); d != nil {
						t.Errorf("still in doubt: %+v", d)
					}
				})
			}
		}
	}
}

// TestDoubtStays: as long as the engine can't say what became of a commit, the actor
// doesn't open.
func TestDoubtStays(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	fail := func(point faultkv.Point) {
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == point {
				return errTest
			}
			return nil
		})
	}
	fail(faultkv.BeforeCommit)
	if err := a.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrPoisoned) {
		t.Fatal(err)
	}
	must(t, a.Close())
	fail(faultkv.BeforeOutcome)
	if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, errTest) {
		t.Errorf("got %v, want %v", err, errTest)
	}
	eng.Hook(nil)
	if d := openActor(t, s).Doubt(); d == nil || d.Outcome != kv.OutcomeNotApplied {
		t.Errorf("got %+v", d)
	}
}
