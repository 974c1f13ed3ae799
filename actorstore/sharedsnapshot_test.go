package actorstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestSharedSnapshots: actors share a snapshot of the engine until one of them, which
// has committed since, needs a newer one; and the last that has it closes it.
func TestSharedSnapshots(t *testing.T) {
	synctest.Test(t, testSharedSnapshots) // however slow the machine is
}

func testSharedSnapshots(t *testing.T) {
	s, eng := openNear(t, 0)
	var actors []*Actor
	for i := range 3 {
		a, err := s.Actor(ctx, NewID(), nil)
		must(t, err)
		defer func() { must(t, a.Close()) }()
		must(t, a.Put(ctx, user("k"), strconv.AppendInt(nil, int64(i), 10)))
		actors = append(actors, a)
	}
	eng.Reset()
	open := func(i int, want string, taken int64) *Snapshot {
		t.Helper()
		snap, err := actors[i].PageSnapshot(ctx)
		must(t, err)
		if v, err := snap.Page(ctx, user("k"), nil); string(v) != want || err != nil || snap.Seq() != actors[i].Seq() {
			t.Errorf("actor %d in state %d: %q, %v, want %q in state %d", i, snap.Seq(), v, err, want, actors[i].Seq())
		}
		if n := eng.Counts().Snapshots; n != taken {
			t.Errorf("%d snapshots were taken, want %d", n, taken)
		}
		return snap
	}
	all := []*Snapshot{open(0, "0", 1), open(1, "1", 1), open(0, "0", 1)}
	must(t, actors[0].Put(ctx, user("k"), []byte("new")))
	all = append(all, open(1, "1", 1), open(2, "2", 1)) // an actor that didn't commit shares the older one
	all = append(all, open(0, "new", 2), open(1, "1", 2), open(0, "new", 2))
	for i := range maxShared {
		must(t, actors[2].Put(ctx, user("k"), strconv.AppendInt(nil, int64(i), 10)))
	}
	all = append(all, open(1, "1", 3)) // the other one is too old to be handed on
	s.shared.newest.since = time.Now().Add(-maxSharedTime)
	all = append(all, open(1, "1", 4))
	for i, snap := range all {
		if v, err := snap.Page(ctx, user("k"), nil); err != nil {
			t.Errorf("snapshot %d: %q, %v", i, v, err)
		}
		must(t, errors.Join(snap.Close(), snap.Close()))
	}
	if n := s.shared.newest; n != nil {
		t.Errorf("nobody has a snapshot, and one is kept: %+v", n)
	}
	must(t, open(1, "1", 5).Close())
}

// TestSharedDropped: the next handle of a dropped actor isn't given a snapshot from before.
func TestSharedDropped(t *testing.T) {
	s, _ := openNear(t, 0)
	other, err := s.Actor(ctx, NewID(), nil)
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
	if v, err := snap.Page(ctx, user("k"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("the new actor has %q, %v", v, err)
	}
	must(t, errors.Join(snap.Close(), held.Close(), b.Close(), other.Close()))
}

// TestSharedOlder: that an older snapshot is closed doesn't end the sharing of the newest.
func TestSharedOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // however slow the machine is
		s, eng := openNear(t, 0)
		a := openActor(t, s)
		var held []*Snapshot
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

// A tardy engine does something between making a snapshot and returning it.
type tardy struct {
	kv.Engine
	then func()
}

func (e *tardy) Shared() *sync.Map { return kv.Shared(e.Engine) }

func (e *tardy) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := e.Engine.Snapshot(ctx)
	if then := e.then; then != nil {
		e.then = nil
		then()
	}
	return s, err
}

// TestSharedTardy: what landed while a snapshot was being returned isn't in it, so an
// actor with a commit since doesn't share it.
func TestSharedTardy(t *testing.T) {
	eng := &tardy{Engine: memkv.New()}
	s, err := Open(ctx, eng, &Options{Now: clock})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("old")))
	other, err := s.Actor(ctx, NewID(), nil)
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
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(a.headKey)}})) // another owner dropped it
	snap, err := a.PageSnapshot(ctx)
	if !errors.Is(err, ErrFenced) {
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
	s, err := Open(ctx, memkv.New(), &Options{Now: clock})
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
func commitAndLook(s *Store, r *rand.Rand) (err error) {
	a, err := s.Actor(ctx, NewID(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	var held []*Snapshot
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
