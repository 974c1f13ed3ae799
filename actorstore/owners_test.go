package actorstore_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// writes says whether the commit sets a key.
func writes(c *kv.Commit, key []byte) bool {
	return slices.ContainsFunc(c.Ops, func(o kv.Op) bool { return o.Kind == kv.OpSet && bytes.Equal(o.Key, key) })
}

// onBoth runs test on an engine that only this process can have open, and on one
// that others might.
func onBoth(t *testing.T, test func(t *testing.T, eng kv.Engine)) {
	t.Run("one process", func(t *testing.T) { test(t, memkv.New()) })
	t.Run("many processes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, engines.Shared(memkv.New())) })
	})
}

// TestReplacedOwner: the loser of a takeover is refused everything at once, what it
// could have answered from memory too, and whatever it tries first.
func TestReplacedOwner(t *testing.T) {
	first := map[string]func(a *actorstore.Actor) error{
		"get":     func(a *actorstore.Actor) error { return second(a.Get(ctx, user("k"), nil)) },
		"missing": func(a *actorstore.Actor) error { return second(a.Get(ctx, user("none"), nil)) },
		"page":    func(a *actorstore.Actor) error { return second(a.Page(ctx, user("k"), nil)) },
		"list": func(a *actorstore.Actor) (err error) {
			for _, err = range a.List(ctx, actorstore.ListOptions{}) {
			}
			return err
		},
		"user get": func(a *actorstore.Actor) error { return second(a.User().Get(ctx, []byte("k"), nil)) },
		"snapshot": func(a *actorstore.Actor) error { return second(a.Snapshot(ctx)) },
		"put":      func(a *actorstore.Actor) error { return a.Put(ctx, user("k"), nil) },
		"delete":   func(a *actorstore.Actor) error { return a.Delete(ctx, user("k")) },
		"range":    func(a *actorstore.Actor) error { return a.DeleteRange(ctx, user("k"), nil) },
		"nothing":  func(a *actorstore.Actor) error { return a.Delete(ctx, user("none")) },
		"apply":    func(a *actorstore.Actor) error { return a.Apply(ctx, put("k", "v")) },
		"sync":     func(a *actorstore.Actor) error { return a.Sync(ctx) },
		"drop":     func(a *actorstore.Actor) error { return a.Drop(ctx) },
		"owned":    func(a *actorstore.Actor) error { return a.Owned(ctx) },
	}
	for name, call := range first {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				old := openActor(t, openStore(t, eng, batch.Limits{}))
				must(t, old.Put(ctx, user("k"), []byte("old")))
				must(t, old.Owned(ctx))
				owner := openActor(t, openStore(t, eng, batch.Limits{}))
				if err := call(old); !errors.Is(err, actorstore.ErrFenced) {
					t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
				}
				checkRefused(t, old, actorstore.ErrFenced)
				if got, _ := get(t, owner, user("k")); got != "old" {
					t.Errorf("the new owner finds %q", got)
				}
				must(t, owner.Put(ctx, user("k"), []byte("new")))
			})
		})
	}
}

// TestReplacedOwnerReads: what the old owner has open ends with its ownership.
func TestReplacedOwnerReads(t *testing.T) { onBoth(t, testReplacedOwnerReads) }

func testReplacedOwnerReads(t *testing.T, eng kv.Engine) {
	old := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, old.Put(ctx, user("a"), []byte("1")))
	must(t, old.Put(ctx, user("b"), []byte("2")))
	snap, err := old.Snapshot(ctx)
	must(t, err)
	taken := openStore(t, eng, batch.Limits{})
	n := 0
	for _, err = range old.List(ctx, actorstore.ListOptions{}) {
		if n++; n == 1 {
			openActor(t, taken)
		}
	}
	if n != 2 || !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("a list went on: %d steps, %v", n, err)
	}
	if _, err := snap.Get(ctx, user("a"), nil); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("snapshot: got %v, want %v", err, actorstore.ErrFenced)
	}
	must(t, snap.Close())
}

// TestReplacedOwnerSnapshot: whatever is asked first of a snapshot of the old owner's.
func TestReplacedOwnerSnapshot(t *testing.T) {
	for name, call := range map[string]func(s *actorstore.Snapshot) error{
		"get":     func(s *actorstore.Snapshot) error { return second(s.Get(ctx, user("a"), nil)) },
		"missing": func(s *actorstore.Snapshot) error { return second(s.Get(ctx, user("none"), nil)) },
		"page":    func(s *actorstore.Snapshot) error { return second(s.Page(ctx, user("a"), nil)) },
		"list": func(s *actorstore.Snapshot) (err error) {
			for _, err = range s.List(ctx, actorstore.ListOptions{}) {
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				old := openActor(t, openStore(t, eng, batch.Limits{}))
				must(t, old.Put(ctx, user("a"), []byte("1")))
				snap, err := old.Snapshot(ctx)
				must(t, err)
				must(t, call2(call(snap), name))
				openActor(t, openStore(t, eng, batch.Limits{}))
				if err := call(snap); !errors.Is(err, actorstore.ErrFenced) {
					t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
				}
				must(t, snap.Close())
			})
		})
	}
}

// call2 lets pass that what is missing is not found.
func call2(err error, name string) error {
	if name == "missing" && err == actorstore.ErrNotFound {
		return nil
	}
	return err
}

// TestEmptyCommit: a batch of nothing isn't a way around.
func TestEmptyCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, eng kv.Engine) {
		old := openActor(t, openStore(t, eng, batch.Limits{}))
		must(t, old.Put(ctx, user("a"), nil))
		openActor(t, openStore(t, eng, batch.Limits{}))
		var j journal
		if err := old.Commit(ctx, j.watch(new(batch.Batch), "b")); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
		}
		j.check(t, "b abort")
	})
}

// TestTakeoverOvertaken: between the claim of an owner and its being told to the
// others, another one takes over and drops the actor, and a third begins it anew.
func TestTakeoverOvertaken(t *testing.T) {
	eng := memkv.New()
	first := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, first.Put(ctx, user("k"), []byte("first")))
	for range 3 {
		openActor(t, openStore(t, eng, batch.Limits{}))
	}
	slow := faultkv.New(eng)
	late := openStore(t, slow, batch.Limits{})
	third := openStore(t, eng, batch.Limits{})
	var anew *actorstore.Actor
	claims := 0
	slow.Hook(func(op faultkv.Op) error {
		if op.Point != faultkv.AfterCommit {
			return nil
		}
		if claims++; claims == 1 {
			must(t, openActor(t, openStore(t, eng, batch.Limits{})).Drop(ctx))
			anew = openActor(t, third)
			must(t, anew.Put(ctx, user("k"), []byte("of the new actor")))
		}
		return nil
	})
	stale, err := late.Actor(ctx, testID, nil)
	must(t, err)
	defer stale.Close()
	must(t, anew.Owned(ctx))
	if _, err := stale.Get(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
	}
	must(t, anew.Put(ctx, user("k"), nil))
	must(t, anew.Close())
	again := openActor(t, third)
	must(t, again.Owned(ctx))
}

// TestCloseWaits: a handle is closed when the commit on its way is applied.
func TestCloseWaits(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	landed, closed := make(chan error, 1), make(chan error, 1)
	go func() { landed <- a.Put(ctx, user("k"), nil) }()
	<-p.Reached()
	go func() { closed <- a.Close() }()
	for !errors.Is(a.Owned(ctx), actorstore.ErrClosed) {
		runtime.Gosched()
	}
	select {
	case <-closed:
		t.Error("the handle is closed while a commit is on its way")
	default:
	}
	p.Release()
	must(t, <-landed)
	must(t, <-closed)
}

// TestDoubtOfDropped: what another owner did since makes the answer unknown, if the
// engine has forgotten.
func TestDoubtOfDropped(t *testing.T) {
	eng := faultkv.New(memkv.New())
	over := forgetful{eng}
	s := openStore(t, over, batch.Limits{})
	a := openActor(t, s)
	for range 5 {
		must(t, a.Put(ctx, user("k"), nil))
	}
	eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome})
	if err := a.Put(ctx, user("k"), []byte("new")); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	must(t, a.Close())
	must(t, openActor(t, openStore(t, over, batch.Limits{})).Drop(ctx))
	if d := openActor(t, s).Doubt(); d == nil || d.Outcome != kv.OutcomeUnknown {
		t.Errorf("got %+v", d)
	}
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
				if op.Point == faultkv.BeforeCommit && writes(op.Commit, layout.RecordKey(layout.ID(testID), layout.PartHead)) {
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
			if err := <-landed; !errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("existed %v: the paused commit: got %v, want %v", existed, err, actorstore.ErrFenced)
			}
			if got, _ := get(t, owner, user("k")); got != want {
				t.Errorf("existed %v: the new owner finds %q, want %q", existed, got, want)
			}
			must(t, owner.Put(ctx, user("k"), []byte("new")))
			checkRefused(t, old, actorstore.ErrFenced)
		})
	}
}

// TestClaimOfNothing: an actor that was claimed and never written to does not
// exist.
func TestClaimOfNothing(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	openActor(t, openStore(t, eng, batch.Limits{}))
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "lobby"})
	must(t, err)
	exists := func() (n int) {
		for _, err := range s.Actors(ctx, nil) {
			must(t, err)
			n++
		}
		return n
	}
	if _, err := s.View(ctx, testID); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("view: got %v", err)
	}
	if _, err := openStore(t, eng, batch.Limits{}).Actor(ctx, testID, &actorstore.ActorOptions{MustExist: true}); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("must exist: got %v", err)
	}
	if _, err := s.Lookup(ctx, "lobby"); !errors.Is(err, actorstore.ErrUnknownActor) || exists() != 0 {
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

// TestFailedTakeover: a Store that can't take over disturbs no owner.
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
	if _, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "other"}); !errors.Is(err, actorstore.ErrNameTaken) {
		t.Errorf("got %v, want %v", err, actorstore.ErrNameTaken)
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
			actors := make([]*actorstore.Actor, n)
			var all sync.WaitGroup
			for i := range n {
				s := openStore(t, eng, batch.Limits{})
				all.Go(func() {
					a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Force: true})
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
				case !errors.Is(err, actorstore.ErrFenced):
					t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
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
		checkRefused(t, old, actorstore.ErrFenced)
		if got, _ := get(t, again, user("k")); got != "again" {
			t.Errorf("got %q", got)
		}
	})
}
