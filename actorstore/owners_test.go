package actorstore

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// anywhere is an engine whose users may be in other processes: nobody can be told.
type anywhere struct{ kv.Engine }

// onBoth runs test on an engine that only this process can have open, and on one
// that others might.
func onBoth(t *testing.T, test func(t *testing.T, eng kv.Engine)) {
	t.Run("one process", func(t *testing.T) { test(t, memkv.New()) })
	t.Run("many processes", func(t *testing.T) { test(t, anywhere{memkv.New()}) })
}

// TestReplacedOwner: the loser of a takeover is refused everything at once, what it
// could have answered from memory too, and whatever it tries first.
func TestReplacedOwner(t *testing.T) {
	first := map[string]func(a *Actor) error{
		"get":      func(a *Actor) error { return second(a.Get(ctx, user("k"), nil)) },
		"missing":  func(a *Actor) error { return second(a.Get(ctx, user("none"), nil)) },
		"page":     func(a *Actor) error { return second(a.Page(ctx, user("k"), nil)) },
		"get many": func(a *Actor) error { return second(a.GetMany(ctx, [][]byte{user("k")})) },
		"list": func(a *Actor) (err error) {
			for _, err = range a.List(ctx, ListOptions{}) {
			}
			return err
		},
		"user get": func(a *Actor) error { return second(a.User().Get(ctx, []byte("k"), nil)) },
		"snapshot": func(a *Actor) error { return second(a.Snapshot(ctx)) },
		"put":      func(a *Actor) error { return a.Put(ctx, user("k"), nil) },
		"delete":   func(a *Actor) error { return a.Delete(ctx, user("k")) },
		"range":    func(a *Actor) error { return a.DeleteRange(ctx, user("k"), nil) },
		"nothing":  func(a *Actor) error { return a.Delete(ctx, user("none")) },
		"apply":    func(a *Actor) error { return a.Apply(ctx, put("k", "v")) },
		"sync":     func(a *Actor) error { return a.Sync(ctx) },
		"drop":     func(a *Actor) error { return a.Drop(ctx) },
		"owned":    func(a *Actor) error { return a.Owned(ctx) },
	}
	for name, call := range first {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				old := openActor(t, openStore(t, eng, batch.Limits{}))
				must(t, old.Put(ctx, user("k"), []byte("old")))
				must(t, old.Owned(ctx))
				owner := openActor(t, openStore(t, eng, batch.Limits{}))
				if err := call(old); !errors.Is(err, ErrFenced) {
					t.Errorf("got %v, want %v", err, ErrFenced)
				}
				checkRefused(t, old, ErrFenced)
				if got, _ := get(t, owner, user("k")); got != "old" {
					t.Errorf("the new owner finds %q", got)
				}
				must(t, owner.Put(ctx, user("k"), []byte("new")))
			})
		})
	}
}

// TestReplacedOwnerReads: what the old owner has open ends with its ownership.
func TestReplacedOwnerReads(t *testing.T) {
	eng := memkv.New()
	old := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, old.Put(ctx, user("a"), []byte("1")))
	must(t, old.Put(ctx, user("b"), []byte("2")))
	snap, err := old.Snapshot(ctx)
	must(t, err)
	taken := openStore(t, eng, batch.Limits{})
	n := 0
	for _, err = range old.List(ctx, ListOptions{}) {
		if n++; n == 1 {
			openActor(t, taken)
		}
	}
	if n != 2 || !errors.Is(err, ErrFenced) {
		t.Errorf("a list went on: %d steps, %v", n, err)
	}
	if _, err := snap.Get(ctx, user("a"), nil); !errors.Is(err, ErrFenced) {
		t.Errorf("snapshot: got %v, want %v", err, ErrFenced)
	}
	must(t, snap.Close())
}

// TestPausedCommit: a commit that was on its way when the actor was taken over
// never lands, not even the first of an actor that did not exist.
func TestPausedCommit(t *testing.T) {
	for _, existed := range []bool{true, false} {
		onBoth(t, func(t *testing.T, eng kv.Engine) {
			slow := faultkv.New(eng)
			old := openActor(t, openStore(t, slow, batch.Limits{}))
			want := ""
			if existed {
				want = "before"
				must(t, old.Put(ctx, user("k"), []byte(want)))
			}
			reached, resume := make(chan struct{}), make(chan struct{})
			slow.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.BeforeCommit {
					close(reached)
					<-resume
				}
				return nil
			})
			landed := make(chan error)
			go func() { landed <- old.Put(ctx, user("k"), []byte("late")) }()
			<-reached
			owner := openActor(t, openStore(t, eng, batch.Limits{}))
			close(resume)
			if err := <-landed; !errors.Is(err, ErrFenced) {
				t.Errorf("existed %v: the paused commit: got %v, want %v", existed, err, ErrFenced)
			}
			if got, _ := get(t, owner, user("k")); got != want {
				t.Errorf("existed %v: the new owner finds %q, want %q", existed, got, want)
			}
			must(t, owner.Put(ctx, user("k"), []byte("new")))
			checkRefused(t, old, ErrFenced)
		})
	}
}

// TestClaimOfNothing: an actor that was claimed and never written to does not
// exist.
func TestClaimOfNothing(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	openActor(t, openStore(t, eng, batch.Limits{}))
	a, err := s.Actor(ctx, testID, &ActorOptions{Name: "lobby"})
	must(t, err)
	exists := func() (n int) {
		for _, err := range s.Actors(ctx) {
			must(t, err)
			n++
		}
		return n
	}
	if _, err := s.View(ctx, testID); !errors.Is(err, ErrUnknownActor) {
		t.Errorf("view: got %v", err)
	}
	if _, err := openStore(t, eng, batch.Limits{}).Actor(ctx, testID, &ActorOptions{MustExist: true}); !errors.Is(err, ErrUnknownActor) {
		t.Errorf("must exist: got %v", err)
	}
	if _, err := s.Lookup(ctx, "lobby"); !errors.Is(err, ErrUnknownActor) || exists() != 0 {
		t.Errorf("the name leads to it: %v, and %d actors exist", err, exists())
	}
	must(t, a.Put(ctx, user("k"), nil))
	if id, err := s.Lookup(ctx, "lobby"); err != nil || id != testID || exists() != 1 {
		t.Errorf("the name leads to %v, %v, and %d actors exist", id, err, exists())
	}
	v, err := s.View(ctx, testID)
	must(t, err)
	if got := v.Info(); got.Seq != 1 || got.Created.UnixMilli() != clock().UnixMilli() {
		t.Errorf("got %+v", got)
	}
	must(t, v.Close())
	must(t, a.Close())
}

// TestFailedTakeover: who can't take over disturbs nobody.
func TestFailedTakeover(t *testing.T) {
	below := memkv.New()
	old := openActor(t, openStore(t, below, batch.Limits{}))
	must(t, old.Put(ctx, user("k"), []byte("v")))
	eng := faultkv.New(below)
	s := openStore(t, eng, batch.Limits{})
	named, err := openStore(t, below, batch.Limits{}).Named(ctx, "other", nil)
	must(t, err)
	must(t, named.Put(ctx, user("k"), nil))
	must(t, named.Close())
	for _, point := range []faultkv.Point{faultkv.BeforeScan, faultkv.BeforeCommit} {
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == point {
				return errTest
			}
			return nil
		})
		if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, errTest) {
			t.Errorf("got %v, want %v", err, errTest)
		}
	}
	eng.Hook(nil)
	if _, err := s.Actor(ctx, testID, &ActorOptions{Name: "other"}); !errors.Is(err, ErrNameTaken) {
		t.Errorf("got %v, want %v", err, ErrNameTaken)
	}
	must(t, old.Owned(ctx))
	must(t, old.Put(ctx, user("k"), []byte("w")))
}

// TestTakeoverByMany: of many owners at once one is left, and it can write.
func TestTakeoverByMany(t *testing.T) {
	for _, existed := range []bool{true, false} {
		onBoth(t, func(t *testing.T, eng kv.Engine) {
			if existed {
				a := openActor(t, openStore(t, eng, batch.Limits{}))
				must(t, a.Put(ctx, user("k"), nil))
			}
			const n = 8
			actors := make([]*Actor, n)
			var all sync.WaitGroup
			for i := range n {
				s := openStore(t, eng, batch.Limits{})
				all.Go(func() {
					a, err := s.Actor(ctx, testID, nil)
					if err != nil {
						t.Error(err)
						return
					}
					actors[i] = a
				})
			}
			all.Wait()
			owners := 0
			for _, a := range actors {
				switch err := a.Owned(ctx); {
				case err == nil:
					owners++
					must(t, a.Put(ctx, user("k"), []byte("mine")))
				case !errors.Is(err, ErrFenced):
					t.Errorf("got %v, want %v", err, ErrFenced)
				}
			}
			if owners != 1 {
				t.Errorf("%d owners", owners)
			}
			for _, a := range actors {
				must(t, a.Close())
			}
		})
	}
}

// TestReplacedAndDropped: what a dropped actor leaves open says nothing about the
// actor that has its id next.
func TestReplacedAndDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, eng kv.Engine) {
		old := openActor(t, openStore(t, eng, batch.Limits{}))
		must(t, old.Put(ctx, user("k"), nil))
		s := openStore(t, eng, batch.Limits{})
		for range 3 {
			openActor(t, openStore(t, eng, batch.Limits{}))
		}
		must(t, openActor(t, s).Drop(ctx))
		again := openActor(t, s)
		must(t, again.Owned(ctx))
		must(t, again.Put(ctx, user("k"), []byte("again")))
		checkRefused(t, old, ErrFenced)
		if got, _ := get(t, again, user("k")); got != "again" {
			t.Errorf("got %q", got)
		}
	})
}

// forgetful is an engine that remembers no commit.
type forgetful struct{ kv.Engine }

func (forgetful) Outcome(context.Context, kv.CommitID) (kv.Outcome, error) {
	return kv.OutcomeUnknown, nil
}

// TestDoubt: whoever opens an actor after a failure learns what became of the
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
					var doubt *DoubtError
					if !errors.Is(err, ErrPoisoned) || !errors.Is(err, kv.ErrUnknownOutcome) || !errors.As(err, &doubt) || doubt.Actor != testID {
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
					if d == nil || d.Outcome != tt.want || d.Commit != doubt.Commit {
						t.Errorf("got %+v, want %v of %x", d, tt.want, doubt.Commit)
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

// TestDoubtStays: as long as nobody can say what became of a commit, the actor
// doesn't open.
func TestDoubtStays(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	fail := func(point faultkv.Point) {
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == point {
				return errTest
			}
			return nil
		})
	}
	fail(faultkv.BeforeCommit)
	if err := a.Put(ctx, user("k"), nil); !errors.Is(err, ErrPoisoned) {
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
