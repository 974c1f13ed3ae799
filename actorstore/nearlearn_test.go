package actorstore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// wantPage checks that page k is pageOf(want).
func wantPage(t *testing.T, r actorstore.Reader, k, want int) {
	t.Helper()
	if p, err := r.Page(ctx, chunk(k), nil); err != nil || !bytes.Equal(p, pageOf(want)) {
		t.Errorf("page %d is %.4q, %v, want %.4q", k, p, err, pageOf(want))
	}
}

// nearBefore returns an actor with page 0, which was asked for once, and a snapshot of that.
func nearBefore(t *testing.T) (*actorstore.Store, *faultkv.Engine, *actorstore.Actor, *actorstore.Snapshot) {
	t.Helper()
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, snap.Close()) })
	wantPage(t, a, 0, 0)
	return s, eng, a, snap
}

// replace commits another page 0.
func replace(a *actorstore.Actor) error {
	var b batch.Batch
	b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
	return a.Commit(ctx, &b)
}

// TestNearBegunSince: what a read finds that began before a commit, and ended when that was
// applied and hadn't landed, is not kept as what was before.
func TestNearBegunSince(t *testing.T) {
	_, eng, a, old := nearBefore(t)
	get := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
	read, sent := make(chan error), make(chan error)
	go func() {
		_, err := a.Page(ctx, chunk(0), nil)
		read <- err
	}()
	<-get.Reached()
	landing := eng.Pause(faultkv.Rule{Point: faultkv.AfterApply})
	go func() { sent <- replace(a) }()
	<-landing.Reached()
	get.Release()
	must(t, <-read)
	wantPage(t, old, 0, 0)
	landing.Release()
	must(t, <-sent)
	wantPage(t, old, 0, 0)
	wantPage(t, a, 0, 9)
}

// TestNearClosedSince: what a read finds that was under way when its handle was closed may
// be what the next handle wrote, and isn't kept for the snapshots of the first.
func TestNearClosedSince(t *testing.T) {
	s, eng, a, old := nearBefore(t)
	get := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
	read := make(chan error)
	go func() {
		_, err := a.Page(ctx, chunk(0), nil)
		read <- err
	}()
	<-get.Reached()
	must(t, a.Close())
	next, err := s.Actor(ctx, testID, nil)
	must(t, err)
	must(t, replace(next))
	get.Release()
	if err := <-read; err != nil && !errors.Is(err, actorstore.ErrClosed) {
		t.Error(err)
	}
	wantPage(t, old, 0, 0)
	wantPage(t, next, 0, 9)
	must(t, next.Close())
}

// TestNearBuffers: what is kept is neither the reader's buffer nor the writer's.
func TestNearBuffers(t *testing.T) {
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	for range 3 {
		p, err := a.Page(ctx, chunk(0), nil)
		must(t, err)
		clear(p)
	}
	wantPage(t, a, 0, 0)
	value := bytes.Clone(pageOf(9))
	must(t, a.Put(ctx, chunk(0), value))
	clear(value)
	readCount(eng)
	wantPage(t, a, 0, 9)
	if n := readCount(eng); n != 0 {
		t.Errorf("%d reads: the entry wasn't renewed", n)
	}
}

// openHosted returns an actor on a near engine that several hosts may use, another one, and
// what makes the lease doubtful for good.
func openHosted(t *testing.T) (eng *faultkv.Engine, a, other *actorstore.Actor, doubt func()) {
	t.Helper()
	m := newMachine(memkv.New())
	m.open(t, actorstore.HostOptions{TTL: time.Hour})
	var actors []*actorstore.Actor
	for _, id := range []actorstore.ID{testID, actorstore.NewID()} {
		a, err := m.Actor(ctx, id, nil)
		must(t, err)
		t.Cleanup(func() { _ = a.Close() }) // one that lost its lease may not say goodbye
		actors = append(actors, a)
	}
	return m.eng, actors[0], actors[1], func() {
		m.die()
		m.set.Store(int64(time.Hour))
	}
}

// TestNearOwned: with the lease in doubt nothing is answered, from memory or not, unless
// the head says that the actor is still owned.
func TestNearOwned(t *testing.T) {
	eng, a, _, doubt := openHosted(t)
	writePages(t, a, 2)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	for range 3 {
		wantPage(t, a, 0, 0)
	}
	doubt()
	for what, r := range map[string]actorstore.Reader{"actor": a, "snapshot": snap} {
		for i, from := range []string{"memory", "the engine"} {
			f := eng.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Match: faultkv.Key(layout.RecordKey(layout.ID(testID), layout.PartHead)), Err: errors.New("no")})
			if _, err := r.Page(ctx, chunk(i), nil); !errors.Is(err, actorstore.ErrLeaseLost) {
				t.Errorf("%s answers from %s with %v", what, from, err)
			}
			f.Remove()
		}
	}
}

// TestNothingYet: before an actor's first commit nothing of it is read from an engine that is far,
// and a state that was opened then stays empty.
func TestNothingYet(t *testing.T) {
	eng := faultkv.New(engines.Far(memkv.New()))
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	look := func(what string, reads int64) {
		t.Helper()
		eng.Reset()
		for _, err := range []error{second(a.Get(ctx, user("k"), nil)), second(a.Page(ctx, user("k"), nil)), second(snap.Get(ctx, user("k"), nil))} {
			if !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("%s: got %v, want %v", what, err, kv.ErrNotFound)
			}
		}
		if n := len(words(t, snap, actorstore.ListOptions{})); n != 0 {
			t.Errorf("%s: %d keys are listed", what, n)
		}
		must(t, a.Preload(ctx, []actorstore.KeyRange{keysIn("a", "z")}, nil))
		if c := eng.Counts(); c.Gets+c.Scans+c.Snapshots != reads {
			t.Errorf("%s: %+v, want %d reads", what, c, reads)
		}
	}
	look("nothing yet", 0)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	if v, err := a.Get(ctx, user("k"), nil); string(v) != "v" || err != nil {
		t.Errorf("after the first commit: got %q, %v", v, err)
	}
	must(t, a.Delete(ctx, user("k")))
	look("nothing any more", 1) // by Preload: the cache doesn't know that there is nothing else
}
