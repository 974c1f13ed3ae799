package actorstore_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLazyCounts is what snapshots and commits ask of a far engine.
func TestLazyCounts(t *testing.T) {
	const commit = 1
	for _, tt := range []struct {
		what  string
		open  func(a *actorstore.Actor) (*actorstore.Snapshot, error)
		cache int64
		write func(b *batch.Batch)
		want  faultkv.Counts // of the commit; what a commit writes isn't compared
	}{
		{"nobody reads", nil, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, known", pageSnapshot, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, deleted", pageSnapshot, 0, func(b *batch.Batch) { b.Delete(chunk(0)) }, faultkv.Counts{Commits: commit}},
		{"of pages, twice", pageSnapshot, 0, func(b *batch.Batch) { b.Delete(chunk(0)); b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, a new one", pageSnapshot, 0, func(b *batch.Batch) { b.PutPrior(chunk(9), pageOf(9), batch.Absent) }, faultkv.Counts{Commits: commit}},
		{"of pages, an empty range", pageSnapshot, 0, func(b *batch.Batch) {
			b.DeleteRangePrior(chunk(5), nil, batch.Freed(0))
			b.Put(chunk(0), pageOf(9))
		}, faultkv.Counts{Commits: commit}},
		{"of pages, not known", pageSnapshot, 0, func(b *batch.Batch) { b.PutPrior(chunk(2), pageOf(9), batch.Stored(4096)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of pages, a range", pageSnapshot, 0, func(b *batch.Batch) { b.DeleteRangePrior(chunk(0), chunk(1), batch.Freed(4096+9)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of pages, no cache", pageSnapshot, -1, func(b *batch.Batch) { b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of everything", snapshotOfAll, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s, eng := openFar(t, tt.cache)
			a := openActor(t, s)
			writePages(t, a, 3)
			actorstore.Evict(a, chunk(2))
			eng.Reset()
			var snaps []*actorstore.Snapshot
			for i := 0; i < 3 && tt.open != nil; i++ {
				snap, err := tt.open(a)
				must(t, err)
				snaps = append(snaps, snap)
			}
			if c := eng.Counts(); c != (faultkv.Counts{}) {
				t.Errorf("opening: %+v", c)
			}
			var b batch.Batch
			tt.write(&b)
			must(t, a.Commit(ctx, &b))
			c := eng.Counts()
			c.Ops, c.Bytes, c.Durable = 0, 0, 0
			if c != tt.want {
				t.Errorf("the commit: %+v, want %+v", c, tt.want)
			}
			for range 2 { // commits after it pin nothing
				must(t, a.Put(ctx, chunk(1), pageOf(8)))
			}
			if n := eng.Counts().Snapshots; n > tt.want.Snapshots {
				t.Errorf("%d snapshots", n)
			}
			for _, snap := range snaps {
				for i := range 3 {
					readPage(t, snap, i)
				}
				if _, err := snap.Page(ctx, chunk(9), nil); err != actorstore.ErrNotFound {
					t.Errorf("a new page in an old snapshot: %v", err)
				}
				must(t, snap.Close())
			}
			eng.Reset()
			must(t, a.Put(ctx, chunk(0), pageOf(9)))
			if n := eng.Counts().Snapshots; n > 0 {
				t.Errorf("a commit pins %d states when no snapshot is open", n)
			}
		})
	}
}

func pageSnapshot(a *actorstore.Actor) (*actorstore.Snapshot, error)  { return a.PageSnapshot(ctx) }
func snapshotOfAll(a *actorstore.Actor) (*actorstore.Snapshot, error) { return a.Snapshot(ctx) }

// TestLazyHeld: what snapshots keep from being evicted has a bound. Beyond it the
// engine keeps the state.
func TestLazyHeld(t *testing.T) {
	s, eng := openFar(t, 1<<20)
	a := openActor(t, s)
	writePages(t, a, 100)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	for i := range 100 {
		must(t, a.Put(ctx, chunk(i), pageOf(i+1)))
	}
	if n := eng.Counts().Snapshots; n != 1 {
		t.Errorf("%d snapshots, want 1", n)
	}
	for i := range 100 {
		readPage(t, snap, i)
	}
	must(t, snap.Close())
}

// TestLazyPinFails: a commit that can't keep what open snapshots show isn't sent, and
// nothing is lost.
func TestLazyPinFails(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 2)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	eng.Reset()
	f := eng.Fail(faultkv.Rule{Point: faultkv.BeforeSnapshot})
	aborted := 0
	var b batch.Batch
	b.Put(chunk(0), pageOf(9))
	b.OnAbort(func(error) { aborted++ })
	err = a.Commit(ctx, &b)
	if !errors.Is(err, reads.ErrNotPinned) || !errors.Is(err, faultkv.ErrInjected) || aborted != 1 {
		t.Errorf("got %v, want %v; aborted %d times", err, reads.ErrNotPinned, aborted)
	}
	if n := eng.Counts().Commits; n != 0 || f.Hits() != 1 || a.Err() != nil {
		t.Errorf("%d commits, %d hits, handle: %v", n, f.Hits(), a.Err())
	}
	readPage(t, snap, 0)
	readPage(t, a, 0)
	must(t, a.Put(ctx, chunk(0), pageOf(9)))
	readPage(t, snap, 0)
	must(t, snap.Close())

	snap, err = a.PageSnapshot(ctx)
	must(t, err)
	other, err := a.PageSnapshot(ctx)
	must(t, err)
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeSnapshot})
	must(t, a.Close())
	readPage(t, snap, 1) // memory has it
	actorstore.Evict(a, chunk(1))
	if _, err := snap.Page(ctx, chunk(1), nil); !errors.Is(err, reads.ErrNotPinned) || !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("a snapshot that couldn't be pinned when the handle was closed: %v", err)
	}
	must(t, errors.Join(snap.Close(), other.Close()))
}

// TestLazyReadFails: an error is the caller's, and isn't kept.
func TestLazyReadFails(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 4)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	for i := range 4 {
		actorstore.Evict(a, chunk(i))
	}
	for _, r := range []actorstore.Reader{a, snap} {
		eng.Fail(faultkv.Rule{Point: faultkv.BeforeGet})
		if _, err := r.Page(ctx, chunk(0), nil); !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("%T: %v", r, err)
		}
		eng.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Skip: 1})
		if _, err := r.Get(ctx, chunk(1), nil); !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("%T: %v", r, err)
		}
		eng.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Skip: 3})
		n := 0
		for _, err := range r.List(ctx, actorstore.ListOptions{}) {
			if n++; n == 2 && !errors.Is(err, faultkv.ErrInjected) || n < 2 && err != nil {
				t.Errorf("%T: entry %d: %v", r, n, err)
			}
		}
	}
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
	if n, err := snap.Prefetch(ctx, nil, nil, 0); n != 0 || !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("prefetch: %d, %v", n, err)
	}
	eng.Heal()
	for i := range 4 {
		readPage(t, snap, i)
	}
	must(t, snap.Close())
}

// TestLazyRefused: a commit that the engine refuses leaves nothing behind.
func TestLazyRefused(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := a.Put(ctx, chunk(0), pageOf(9)); !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, batch.ErrTooLarge)
	}
	readPage(t, snap, 0)
	readPage(t, a, 0)
	must(t, snap.Close())
}

// TestLazyOrdered: every part of an ordered batch is a state of its own.
func TestLazyOrdered(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	n := a.Limits().Entries
	writePages(t, a, 2*n)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	actorstore.Evict(a, chunk(2*n-1)) // so the second part has to pin
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeSnapshot})
	var b batch.Batch
	b.Mode = batch.Ordered
	for i := range 2 * n {
		b.PutPrior(chunk(i), pageOf(i+1), batch.Stored(4096))
	}
	err = a.Commit(ctx, &b)
	var part *batch.OrderedError
	if !errors.As(err, &part) || part.Landed != 1 || !errors.Is(err, reads.ErrNotPinned) {
		t.Errorf("got %v, want %v of the second part", err, reads.ErrNotPinned)
	}
	middle, err := a.PageSnapshot(ctx)
	must(t, err)
	for i := range 2 * n {
		must(t, a.Put(ctx, chunk(i), pageOf(i+2)))
	}
	for i := range 2 * n {
		readPage(t, snap, i)
		want := i
		if i < n {
			want++
		}
		p, err := middle.Page(ctx, chunk(i), nil)
		must(t, err)
		if string(p) != string(pageOf(want)) {
			t.Errorf("page %d between the parts is %.4q", i, p)
		}
	}
	must(t, errors.Join(snap.Close(), middle.Close()))
}

// TestLazyLate: Late functions and hooks may read what they want.
func TestLazyLate(t *testing.T) {
	s, _ := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 2)
	var b batch.Batch
	b.Put(chunk(0), pageOf(1))
	seen := 0
	look := func(want int) {
		p, err := a.Page(ctx, chunk(0), nil)
		snap, snapErr := a.PageSnapshot(ctx)
		must(t, errors.Join(err, snapErr))
		q, err := snap.Page(ctx, chunk(0), nil)
		must(t, errors.Join(err, snap.Close()))
		if string(p) != string(pageOf(want)) || string(q) != string(p) {
			t.Errorf("page %.4q, %.4q, want %d", p, q, want)
		}
		seen++
	}
	b.Late(func(b *batch.Batch) error { look(0); return nil })
	b.OnCommit(func() { look(1) })
	must(t, a.Commit(ctx, &b))
	if seen != 2 {
		t.Errorf("looked %d times", seen)
	}
}

// TestLazyHosts: where others may take the actor, a transaction of what memory has is
// one commit as well, thanks to the lease.
func TestLazyHosts(t *testing.T) {
	eng := faultkv.New(engines.Shared(engines.Far(memkv.New())))
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	writePages(t, a, 2)
	eng.Reset()
	for i := range 10 {
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		readPage(t, snap, 1)
		var b batch.Batch
		b.PutPrior(chunk(0), pageOf(i), batch.Stored(4096))
		must(t, errors.Join(a.Commit(ctx, &b), snap.Close()))
	}
	if c := eng.Counts(); c.Gets+c.Scans+c.Snapshots > 0 || c.Commits != 10 {
		t.Errorf("%+v", c)
	}
}
