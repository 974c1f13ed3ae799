package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestFencing: an owner that was replaced writes nothing more, whether or not the
// actor existed before.
func TestFencing(t *testing.T) {
	for _, existed := range []bool{true, false} {
		onEngines(t, func(t *testing.T, eng kv.Engine) {
			s1, s2 := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
			old := openActor(t, s1)
			if existed {
				must(t, old.Put(ctx, user("k"), []byte("old")))
			}
			owner := openActor(t, s2)
			if !existed {
				must(t, owner.Put(ctx, user("k"), []byte("owner")))
			}
			var j journal
			if err := old.Commit(ctx, j.watch(put("k", "late"), "b")); !errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
			}
			j.check(t, "b abort")
			checkRefused(t, old, actorstore.ErrFenced)
			if err := old.Err(); !errors.Is(err, actorstore.ErrFenced) || errors.Is(err, actorstore.ErrPoisoned) {
				t.Errorf("Err: %v", err)
			}
			must(t, owner.Put(ctx, user("k"), []byte("new")))
			must(t, old.Close())
			again := openActor(t, s1)
			if got, _ := get(t, again, user("k")); got != "new" {
				t.Errorf("got %q", got)
			}
			v, err := s2.View(ctx, testID)
			must(t, err)
			if got := v.Info().Epoch; got != 3 {
				t.Errorf("epoch %d, want 3", got)
			}
			must(t, v.Close())
			if err := owner.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
			}
		})
	}
}

// TestFencedByDrop: the owner of an actor that was dropped can't bring it back.
func TestFencedByDrop(t *testing.T) {
	eng := memkv.New()
	old := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, old.Put(ctx, user("k"), nil))
	owner := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, owner.Drop(ctx))
	if err := old.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
	}
}

// TestTakeOverRace: the old owner commits while the new one takes over; the new
// one tries again and wins.
func TestTakeOverRace(t *testing.T) {
	below := memkv.New()
	old := openActor(t, openStore(t, below, batch.Limits{}))
	must(t, old.Put(ctx, user("k"), []byte("1")))
	eng := faultkv.New(below)
	s := openStore(t, eng, batch.Limits{})
	races := 0
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit && races < 3 {
			races++
			return old.Put(ctx, user("k"), []byte("2"))
		}
		return nil
	})
	owner := openActor(t, s)
	must(t, owner.Put(ctx, user("l"), nil))
	if races != 3 || owner.Seq() != 5 {
		t.Errorf("%d races, seq %d", races, owner.Seq())
	}
	if err := old.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
	}
}

// TestEngineFailures: what the engine says decides whether the handle lives.
func TestEngineFailures(t *testing.T) {
	tests := []struct {
		name   string
		point  faultkv.Point
		thrown error
		want   error // of the commit
		state  error // of the handle after it
		hook   string
	}{
		{"conflict", faultkv.BeforeCommit, kv.ErrConflict, actorstore.ErrFenced, actorstore.ErrFenced, "b abort"},
		{"too large", faultkv.BeforeCommit, kv.ErrTooLarge, batch.ErrTooLarge, nil, "b abort"},
		{"canceled", faultkv.BeforeCommit, context.Canceled, context.Canceled, nil, "b abort"},
		{"unknown outcome", faultkv.BeforeCommit, kv.ErrUnknownOutcome, kv.ErrUnknownOutcome, actorstore.ErrPoisoned, "b abort"},
		{"unknown and canceled", faultkv.BeforeCommit, errors.Join(kv.ErrUnknownOutcome, context.Canceled), kv.ErrUnknownOutcome, actorstore.ErrPoisoned, "b abort"},
		{"engine poisoned", faultkv.BeforeCommit, kv.ErrPoisoned, kv.ErrPoisoned, actorstore.ErrPoisoned, "b abort"},
		{"engine closed", faultkv.BeforeCommit, kv.ErrClosed, kv.ErrClosed, actorstore.ErrPoisoned, "b abort"},
		{"something else", faultkv.BeforeCommit, errTest, errTest, actorstore.ErrPoisoned, "b abort"},
		{"applied, not durable", faultkv.AfterCommit, kv.ErrPoisoned, kv.ErrPoisoned, actorstore.ErrPoisoned, "b commit"},
		{"applied, then canceled", faultkv.AfterCommit, context.Canceled, context.Canceled, actorstore.ErrPoisoned, "b commit"},
		{"reading what is replaced", faultkv.BeforeGet, errTest, errTest, nil, "b abort"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eng := faultkv.New(memkv.New())
			s := openStore(t, eng, batch.Limits{})
			a := openActor(t, s)
			must(t, a.Put(ctx, user("k"), []byte("old")))
			must(t, a.Close())
			a = openActor(t, s) // which doesn't remember how long that is
			cancelable, cancel := context.WithCancel(ctx)
			defer cancel()
			eng.Hook(func(op faultkv.Op) error {
				if op.Point != tt.point {
					return nil
				}
				if errors.Is(tt.thrown, context.Canceled) {
					cancel()
				}
				return tt.thrown
			})
			var j journal
			if err := a.Commit(cancelable, j.watch(put("k", "new"), "b")); !errors.Is(err, tt.want) || tt.state != nil && !errors.Is(err, tt.state) {
				t.Errorf("got %v, want %v, %v", err, tt.want, tt.state)
			}
			j.check(t, tt.hook)
			eng.Hook(nil)
			if err := a.Err(); !errors.Is(err, tt.state) {
				t.Errorf("the handle: %v, want %v", err, tt.state)
			}
			if tt.state != nil {
				checkRefused(t, a, tt.state)
			} else {
				must(t, a.Put(ctx, user("k"), []byte("next")))
			}
			// Opened again, the actor is whole, and says what is stored.
			must(t, a.Close())
			a = openActor(t, s)
			want := map[string]string{"b commit": "new", "b abort": "old"}[tt.hook]
			if tt.state == nil {
				want = "next"
			}
			if got, _ := get(t, a, user("k")); got != want || a.Used() != int64(4+len(want)) {
				t.Errorf("stored is %q, %d used, want %q", got, a.Used(), want)
			}
			must(t, a.Put(ctx, user("k"), nil))
		})
	}
}

func TestSyncFailures(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	apply := func() {
		t.Helper()
		var b batch.Batch
		b.Put(user("k"), nil)
		must(t, a.Apply(ctx, &b))
	}
	apply()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.Sync(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	must(t, a.Sync(ctx))
	apply()
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeSync {
			return errTest
		}
		return nil
	})
	if err := a.Sync(ctx); !errors.Is(err, actorstore.ErrPoisoned) || !errors.Is(err, errTest) {
		t.Errorf("got %v, want %v", err, actorstore.ErrPoisoned)
	}
	checkRefused(t, a, actorstore.ErrPoisoned)
}

func TestDropFailures(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	fail := func(point faultkv.Point, thrown error) {
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == point {
				return thrown
			}
			return nil
		})
	}
	fail(faultkv.BeforeCommit, kv.ErrTooLarge)
	if err := a.Drop(ctx); !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, batch.ErrTooLarge)
	}
	if got, _ := get(t, a, user("k")); got != "v" { // the handle is open
		t.Errorf("got %q", got)
	}
	fail(faultkv.AfterCommit, kv.ErrPoisoned)
	if err := a.Drop(ctx); !errors.Is(err, actorstore.ErrPoisoned) {
		t.Errorf("got %v, want %v", err, actorstore.ErrPoisoned)
	}
	checkRefused(t, a, actorstore.ErrClosed)
	eng.Hook(nil)
	if _, err := s.View(ctx, testID); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("got %v, want %v", err, actorstore.ErrUnknownActor)
	}
	openActor(t, s)
}

// TestClaimRefused: while commits are refused, as on a full disk, an actor that nothing else has open can be read, and its handle goes on
// when they are not. An actor with another handle is refused, and that handle goes on.
func TestClaimRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, below kv.Engine) {
		eng := faultkv.New(below)
		refuse := func() {
			eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errkind.ErrNoSpace), Times: faultkv.Forever})
		}
		s1, s2 := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
		a := openActor(t, s1)
		must(t, a.Put(ctx, user("k"), []byte("1")))
		must(t, a.Close())
		refuse()
		a, err := s1.Actor(ctx, testID, nil)
		if kv.Shared(eng) == nil {
			if !errors.Is(err, errkind.ErrNoSpace) {
				t.Errorf("got %v, want %v", err, errkind.ErrNoSpace)
			}
			eng.Heal()
			return
		}
		must(t, err)
		if got, _ := get(t, a, user("k")); got != "1" {
			t.Errorf("got %q", got)
		}
		if err := a.Put(ctx, user("k"), []byte("2")); !errors.Is(err, errkind.ErrNoSpace) {
			t.Errorf("got %v, want %v", err, errkind.ErrNoSpace)
		}
		if _, err := s2.Actor(ctx, testID, nil); !errors.Is(err, errkind.ErrNoSpace) {
			t.Errorf("an actor that another handle has: got %v, want %v", err, errkind.ErrNoSpace)
		}
		eng.Heal()
		must(t, a.Put(ctx, user("k"), []byte("3")))
		must(t, a.Sync(ctx))
		b := openActor(t, s2)
		if err := a.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
		}
		if got, _ := get(t, b, user("k")); got != "3" {
			t.Errorf("got %q", got)
		}
		must(t, a.Close())
	})
}

// TestClaimMeanwhile: an actor whose owner writes, or drops it, and closes while another handle is being opened, is opened as it is then,
// or not at all; on a full disk too.
func TestClaimMeanwhile(t *testing.T) {
	for _, drop := range []bool{false, true} {
		for _, refused := range []error{nil, kv.NotApplied(errkind.ErrNoSpace)} {
			t.Run(fmt.Sprint(drop, refused), func(t *testing.T) {
				eng := faultkv.New(memkv.New())
				s1, s2 := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
				b := openActor(t, s1)
				must(t, b.Put(ctx, user("k"), []byte("1")))
				once := false
				eng.Hook(func(op faultkv.Op) error {
					if op.Point != faultkv.BeforeCommit || once {
						return nil
					}
					once = true // the claim of a
					if drop {
						must(t, b.Drop(ctx))
					} else {
						must(t, b.Put(ctx, user("k"), []byte("2")))
					}
					must(t, b.Close())
					return refused
				})
				a, err := s2.Actor(ctx, testID, &actorstore.ActorOptions{MustExist: true})
				eng.Hook(nil)
				switch {
				case drop && errors.Is(err, actorstore.ErrUnknownActor), refused != nil && errors.Is(err, errkind.ErrNoSpace):
					return
				case err != nil || drop:
					t.Fatalf("got %v", err)
				}
				if got, _ := get(t, a, user("k")); got != "2" || a.Seq() != 2 {
					t.Errorf("got %q at %d", got, a.Seq())
				}
				must(t, a.Put(ctx, user("k"), []byte("3")))
				must(t, a.Close())
			})
		}
	}
}
