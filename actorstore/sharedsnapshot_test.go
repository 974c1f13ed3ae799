package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A tardy engine does something between making a snapshot and returning it. It counts snapshots: those that were made,
// and those that are open.
type tardy struct {
	kv.Engine
	then       func()
	made, open atomic.Int64
}

func (e *tardy) Shared() *sync.Map { return kv.Shared(e.Engine) }

func (e *tardy) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := e.Engine.Snapshot(ctx)
	if err == nil {
		e.made.Add(1)
		e.open.Add(1)
	}
	if then := e.then; then != nil {
		e.then = nil
		then()
	}
	return &tardySnapshot{s, e}, err
}

type tardySnapshot struct {
	kv.Snapshot
	of *tardy
}

func (s *tardySnapshot) Close() error {
	s.of.open.Add(-1)
	return s.Snapshot.Close()
}

// TestSharedSnapshots: actors share a snapshot of the engine until one of them, which
// has committed since, needs a newer one; and the last that has it closes it.
func TestSharedSnapshots(t *testing.T) {
	synctest.Test(t, testSharedSnapshots) // however slow the machine is
}

func testSharedSnapshots(t *testing.T) {
	eng := &tardy{Engine: memkv.New()}
	s := openStore(t, eng, batch.Limits{})
	var actors []*actorstore.Actor
	for i := range 3 {
		a, err := s.Actor(ctx, actorstore.NewID(), nil)
		must(t, err)
		defer func() { must(t, a.Close()) }()
		must(t, a.Put(ctx, user("k"), strconv.AppendInt(nil, int64(i), 10)))
		actors = append(actors, a)
	}
	before := eng.made.Load()
	open := func(i int, want string, taken int64) *actorstore.Snapshot {
		t.Helper()
		snap, err := actors[i].PageSnapshot(ctx)
		must(t, err)
		if v, err := snap.Page(ctx, user("k"), nil); string(v) != want || err != nil || snap.Seq() != actors[i].Seq() {
			t.Errorf("actor %d in state %d: %q, %v, want %q in state %d", i, snap.Seq(), v, err, want, actors[i].Seq())
		}
		if n := eng.made.Load() - before; n != taken {
			t.Errorf("%d snapshots were taken, want %d", n, taken)
		}
		return snap
	}
	all := []*actorstore.Snapshot{open(0, "0", 1), open(1, "1", 1), open(0, "0", 1)}
	must(t, actors[0].Put(ctx, user("k"), []byte("new")))
	all = append(all, open(1, "1", 1), open(2, "2", 1)) // an actor that didn't commit shares the older one
	all = append(all, open(0, "new", 2), open(1, "1", 2), open(0, "new", 2))
	for i := range actorstore.MaxShared {
		must(t, actors[2].Put(ctx, user("k"), strconv.AppendInt(nil, int64(i), 10)))
	}
	all = append(all, open(1, "1", 3)) // the other one is too old to be handed on
	<-time.After(actorstore.MaxSharedTime)
	all = append(all, open(1, "1", 4))
	for i, snap := range all {
		if v, err := snap.Page(ctx, user("k"), nil); err != nil {
			t.Errorf("snapshot %d: %q, %v", i, v, err)
		}
		must(t, errors.Join(snap.Close(), snap.Close()))
	}
	if n := eng.open.Load(); n != 0 {
		t.Errorf("all snapshots are closed, and %d of the engine are open", n)
	}
	must(t, open(1, "1", 5).Close())
}

// TestSharedDropped: the next handle of a dropped actor isn't given a snapshot from before.
func TestSharedDropped(t *testing.T) {
	s, _ := openNear(t, 0)
	other, err := s.Actor(ctx, actorstore.NewID(), nil)
	must(t, err)
	a, err := s.Actor(ctx, testID, nil)
	must(t, err)
	must(t, a.Put(ctx, user("k"), []byte("old life")))
	held, err := other.PageSnapshot(ctx)
	must(t, err)
	must(t, a.Drop(ctx))
	b, err := s.Actor(ctx, testID, nil)
	must(t, err)
	snap, err := b.PageSnapshot(ctx)
	must(t, err)
	if v, err := snap.Page(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("the new actor has %q, %v", v, err)
	}
	must(t, errors.Join(snap.Close(), held.Close(), b.Close(), other.Close()))
}

// TestSharedOlder: that an older snapshot is closed doesn't end the sharing of the newest.
func TestSharedOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // however slow the machine is
		s, eng := openNear(t, 0)
		a := openActor(t, s)
		var held []*actorstore.Snapshot
		for range 2 {
			must(t, a.Put(ctx, user("k"), nil))
			snap, err := a.PageSnapshot(ctx)
			must(t, err)
			held = append(held, snap)
		}
		must(t, held[0].Close())
		eng.Reset()
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		if n := eng.Counts().Snapshots; n != 0 {
			t.Errorf("%d snapshots were taken, and one was there", n)
		}
		must(t, errors.Join(held[1].Close(), snap.Close()))
	})
}

// TestSharedTardy: what landed while a snapshot was being returned isn't in it, so an
// actor with a commit since doesn't share it.
func TestSharedTardy(t *testing.T) {
	eng := &tardy{Engine: memkv.New()}
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("old")))
	other, err := s.Actor(ctx, actorstore.NewID(), nil)
	must(t, err)
	eng.then = func() { must(t, a.Put(ctx, user("k"), []byte("new"))) }
	first, err := other.PageSnapshot(ctx)
	must(t, err)
	second, err := a.PageSnapshot(ctx)
	must(t, err)
	if v, err := second.Page(ctx, user("k"), nil); string(v) != "new" || err != nil {
		t.Errorf("a snapshot after the commit has %q, %v", v, err)
	}
	must(t, errors.Join(first.Close(), second.Close(), other.Close()))
}

// TestSharedHosted: where others may take the actor and the lease is in doubt, a snapshot
// from before proves nothing.
func TestSharedHosted(t *testing.T) {
	eng, a, other, doubt := openHosted(t)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	held, err := other.PageSnapshot(ctx)
	must(t, err)
	defer func() { must(t, held.Close()) }()
	doubt()
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(layout.RecordKey(layout.ID(testID), layout.PartHead))}})) // another owner dropped it
	snap, err := a.PageSnapshot(ctx)
	if !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	if err == nil {
		must(t, snap.Close())
	}
}

// TestSharedFails: an engine that gives no snapshot leaves nothing behind.
func TestSharedFails(t *testing.T) {
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	no := errors.New("no")
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeSnapshot, Err: no})
	if _, err := a.PageSnapshot(ctx); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	eng.Heal()
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	must(t, snap.Close())
}

// TestSharedConcurrent: whatever the others do, a snapshot shows the state of its actor
// that its number says, and never one before a commit that had returned.
func TestSharedConcurrent(t *testing.T) {
	s, err := actorstore.Open(ctx, memkv.New(), &actorstore.Options{Now: clock})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if err := commitAndLook(s, rand.New(rand.NewPCG(1, uint64(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// commitAndLook has an actor count, and look.
func commitAndLook(s *actorstore.Store, r *rand.Rand) (err error) {
	a, err := s.Actor(ctx, actorstore.NewID(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	var held []*actorstore.Snapshot
	for n := 1; n <= 500; n++ {
		if err := a.Put(ctx, user("n"), strconv.AppendInt(nil, int64(n), 10)); err != nil {
			return err
		}
		for range min(r.IntN(3), 8-len(held)) { // an engine may bound how many are open
			snap, err := a.PageSnapshot(ctx)
			if err != nil {
				return err
			}
			held = append(held, snap)
		}
		for len(held) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(held))
			v, err := held[i].Page(ctx, user("n"), nil)
			if want := fmt.Sprint(held[i].Seq()); err != nil || string(v) != want {
				return fmt.Errorf("after commit %d: state %s has %s, %v", n, want, v, err)
			}
			if i == len(held)-1 && held[i].Seq() > uint64(n) {
				return fmt.Errorf("state %d after commit %d", held[i].Seq(), n)
			}
			if err := held[i].Close(); err != nil {
				return err
			}
			held = append(held[:i], held[i+1:]...)
		}
	}
	for _, snap := range held {
		if err := snap.Close(); err != nil {
			return err
		}
	}
	return nil
}
