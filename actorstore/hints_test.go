package actorstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// whole fails the test unless Check finds nothing in the store.
func whole(t *testing.T, s *actorstore.Store) {
	t.Helper()
	for f, err := range s.Check(ctx) {
		t.Error(f, err)
	}
}

// TestHints sets hints and finds them when the actor is opened again.
func TestHints(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		e := faultkv.New(eng)
		s := openStore(t, e, batch.Limits{})
		a := openActor(t, s)
		reopen := func(want string) {
			t.Helper()
			must(t, a.Close())
			a = openActor(t, s)
			if got := string(a.Hints()); got != want {
				t.Errorf("hints %q, want %q", got, want)
			}
		}
		// No actor is made by hints alone.
		must(t, a.StoreHints(ctx, []byte("early")))
		reopen("")
		must(t, a.Put(ctx, user("k"), []byte("v")))
		reopen("")

		e.Reset()
		a.SetHints([]byte("beside"))
		if n := e.Counts().Commits; n != 0 {
			t.Errorf("%d commits", n)
		}
		must(t, a.Put(ctx, user("k"), []byte("w")))
		must(t, a.Put(ctx, user("k"), []byte("x")))
		if c := e.Counts(); c.Commits != 2 || c.Ops != 2*3+1 {
			t.Errorf("hints beside a commit: %+v", c)
		}
		reopen("beside")

		e.Reset()
		must(t, a.StoreHints(ctx, []byte("alone")))
		if c := e.Counts(); c.Commits != 1 || c.Durable != 0 || c.Gets+c.Scans > 2 {
			t.Errorf("hints alone: %+v", c)
		}
		used := a.Used()
		reopen("alone")
		if a.Used() != used {
			t.Errorf("%d bytes used, then %d", used, a.Used())
		}
		// What isn't written is lost, and nothing else is.
		a.SetHints([]byte("never"))
		reopen("alone")
		a.SetHints(bytes.Repeat([]byte{1}, actorstore.MaxHints+1))
		must(t, a.Put(ctx, user("k"), nil))
		reopen("")
		must(t, a.StoreHints(ctx, bytes.Repeat([]byte{1}, actorstore.MaxHints)))
		whole(t, s)

		id, err := s.Fork(ctx, snapshotOf(t, a), nil)
		must(t, err)
		fork, err := s.Actor(ctx, id, nil)
		must(t, err)
		if h := fork.Hints(); h != nil {
			t.Errorf("the fork has hints of %d bytes", len(h))
		}
		must(t, fork.Close())
		must(t, a.Drop(ctx))
		a = openActor(t, s)
		must(t, a.Put(ctx, user("k"), nil))
		reopen("")
		whole(t, s)
	})
}

// snapshotOf returns a snapshot that is closed when the test ends.
func snapshotOf(t *testing.T, a *actorstore.Actor) *actorstore.Snapshot {
	t.Helper()
	s, err := a.Snapshot(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestHintsLargeCommit waits for a commit that has room for them.
func TestHintsLargeCommit(t *testing.T) {
	eng := memkv.New()
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	stored := func() string {
		h, err := eng.Get(ctx, layout.RecordKey(layout.ID(testID), layout.PartHints), nil)
		if err != kv.ErrNotFound {
			must(t, err)
		}
		return string(h)
	}
	must(t, a.Put(ctx, user("k"), nil))
	a.SetHints([]byte("h"))
	var b batch.Batch
	b.Mode = batch.Ordered
	for i := range actorstore.HintsBeside + 1 {
		b.Put(user(fmt.Sprint(i)), nil)
	}
	must(t, a.Commit(ctx, &b))
	if stored() != "" && a.Limits().Entries > actorstore.HintsBeside {
		t.Error("the hints went with a large commit")
	}
	must(t, a.Put(ctx, user("k"), nil))
	if stored() != "h" {
		t.Error("the hints still wait")
	}
}

// TestHintsFail loses nothing but the hints.
func TestHintsFail(t *testing.T) {
	e := faultkv.New(memkv.New())
	s := openStore(t, e, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	e.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := a.StoreHints(ctx, []byte("h")); !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, ok := get(t, a, user("k")); !ok || a.Err() != nil {
		t.Errorf("the actor: %v, %v", ok, a.Err())
	}
	// They are tried again with the next one.
	must(t, a.Put(ctx, user("k"), []byte("w")))
	must(t, a.Close())
	a = openActor(t, s)
	if got := string(a.Hints()); got != "h" {
		t.Errorf("hints %q", got)
	}
	must(t, a.Close())
	if err := a.StoreHints(ctx, nil); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestHintsCheck finds hints of no actor.
func TestHintsCheck(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(layout.RecordKey(layout.ID(actorstore.NewID()), layout.PartHints), []byte("x")),
		kv.Set(layout.RecordKey(layout.ID(testID), layout.PartHints), make([]byte, actorstore.MaxHints+1))}}))
	var found []string
	for f, err := range s.Check(ctx) {
		must(t, err)
		found = append(found, f.Where+": "+f.What)
	}
	if len(found) != 2 {
		t.Errorf("found %q", found)
	}
}
