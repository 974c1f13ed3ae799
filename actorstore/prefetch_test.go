package actorstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// forget empties the cache of what is stored of an actor.
func forget(t *testing.T, a *actorstore.Actor) {
	t.Helper()
	for e, err := range a.List(ctx, actorstore.ListOptions{KeysOnly: true}) {
		must(t, err)
		actorstore.Evict(a, e.Key)
	}
}

func TestPrefetch(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 10)
	must(t, a.Put(ctx, user("a"), make([]byte, layout.RowSize)))
	must(t, a.Put(ctx, user("b"), make([]byte, layout.RowSize+1)))
	must(t, a.Put(ctx, user("c"), nil))
	for _, tt := range []struct {
		start, end []byte
		limit      int
		want       int
		has, lacks []byte // one that memory has then, and one that it lacks
	}{
		{chunk(0), nil, 0, 10, chunk(9), user("a")},
		{chunk(2), chunk(5), 0, 3, chunk(4), chunk(5)},
		{chunk(2), chunk(5), 2, 2, chunk(3), chunk(4)},
		{chunk(2), chunk(5), 3, 3, chunk(4), chunk(5)},
		{chunk(5), chunk(5), 0, 0, nil, chunk(5)},
		{chunk(6), chunk(5), 0, 0, nil, chunk(5)},
		{chunk(20), nil, 0, 0, nil, chunk(0)},
		{user(""), nil, 1, 1, user("a"), user("c")},
		{user("b"), user("d"), 0, 1, user("c"), user("b")},
		{user("b"), user("d"), 1, 0, nil, user("c")}, // a large value is cut off
		{nil, nil, 0, 12, chunk(9), user("b")},
	} {
		what := fmt.Sprintf("%x to %x, %d", tt.start, tt.end, tt.limit)
		forget(t, a)
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		eng.Reset()
		rows := 0
		eng.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeScan {
				rows = op.Range.Limit
			}
			return nil
		})
		n, err := snap.Prefetch(ctx, tt.start, tt.end, tt.limit)
		eng.Hook(nil)
		if n != tt.want || err != nil || rows != 2*tt.limit {
			t.Errorf("%s: got %d, %v, want %d; asked for %d rows", what, n, err, tt.want, rows)
		}
		if c := eng.Counts(); c != (faultkv.Counts{Scans: 1}) {
			t.Errorf("%s: %+v, want one scan", what, c)
		}
		if tt.has != nil {
			eng.Reset()
			must(t, second(a.Get(ctx, tt.has, nil)))
			if n := readCount(eng); n != 0 || !snap.Cached(tt.has) {
				t.Errorf("%s: %s isn't there: %d reads", what, actorstore.Describe(tt.has), n)
			}
		}
		if actorstore.Remembers(a, tt.lacks) || snap.Cached(tt.lacks) {
			t.Errorf("%s: %s is there, too", what, actorstore.Describe(tt.lacks))
		}
		must(t, snap.Close())
		if _, err := snap.Prefetch(ctx, nil, nil, 0); !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// TestPrefetchOld: an older snapshot reads ahead what hasn't changed since.
func TestPrefetchOld(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 10)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	must(t, a.Put(ctx, chunk(3), pageOf(33)))
	forget(t, a)
	if n, err := snap.Prefetch(ctx, chunk(0), nil, 0); n != 9 || err != nil {
		t.Errorf("got %d, %v, want all but the one that has changed", n, err)
	}
	eng.Reset()
	for i := range 10 {
		readPage(t, snap, i)
	}
	if n := readCount(eng); n != 0 {
		t.Errorf("%d reads", n)
	}
	// One that the engine keeps has nothing of the newest state to offer.
	must(t, a.DeleteRange(ctx, chunk(3), chunk(5)))
	forget(t, a)
	eng.Reset()
	if n, err := snap.Prefetch(ctx, chunk(0), nil, 0); n != 0 || err != nil || readCount(eng) != 0 {
		t.Errorf("got %d, %v of an older state", n, err)
	}
	for i := range 10 {
		readPage(t, snap, i)
	}
	must(t, snap.Close())
}

// TestPrefetchNothing: without a cache, and for a view, nothing is read.
func TestPrefetchNothing(t *testing.T) {
	for _, cacheBytes := range []int64{-1, 0} {
		s, eng := openFar(t, cacheBytes)
		a := openActor(t, s)
		writePages(t, a, 3)
		snap := func() *actorstore.Snapshot {
			if cacheBytes < 0 {
				snap, err := a.Snapshot(ctx)
				must(t, err)
				return snap
			}
			v, err := s.View(ctx, testID)
			must(t, err)
			return v.Snapshot
		}()
		eng.Reset()
		if n, err := snap.Prefetch(ctx, nil, nil, 0); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if c := eng.Counts(); c != (faultkv.Counts{}) {
			t.Errorf("%+v", c)
		}
		must(t, snap.Close())
	}
}

// TestPrefetchWhileSending: what a commit is just changing isn't kept.
func TestPrefetchWhileSending(t *testing.T) {
	s, eng := openFar(t, 0)
	a, end := sending(t, s, eng, faultkv.Rule{Point: faultkv.AfterApply})
	snap, err := a.PageSnapshot(ctx) // the engine's, as nothing was prepared
	must(t, err)
	forget(t, a)
	if n, err := snap.Prefetch(ctx, chunk(0), nil, 0); n != 0 || err != nil {
		t.Errorf("got %d, %v, of a state that isn't the newest yet", n, err)
	}
	must(t, end())
	forget(t, a)
	if n, err := snap.Prefetch(ctx, chunk(0), nil, 0); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	must(t, a.Put(ctx, chunk(2), pageOf(9)))
	forget(t, a)
	if n, err := snap.Prefetch(ctx, chunk(0), nil, 0); n != 0 || err != nil {
		t.Errorf("got %d, %v, of an older state", n, err)
	}
	must(t, snap.Close())
}

// TestPrefetchDamage: damage is reported, and what is cut off by a limit isn't damage.
func TestPrefetchDamage(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 3)
	p := layout.NewPrefix(layout.ID(testID))
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(layout.AppendMetadata(p.AppendBase(nil, chunk(1))))}}))
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	if n, err := snap.Prefetch(ctx, nil, nil, 0); n != 0 || !errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("%d, %v, want %v", n, err, actorstore.ErrCorrupt)
	}
	must(t, snap.Close())
}
