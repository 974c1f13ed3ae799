package actorstore

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLazyCounts is what snapshots and commits ask of a far engine.
func TestLazyCounts(t *testing.T) {
	const commit = 1
	for _, tt := range []struct {
		what  string
		open  func(a *Actor) (*Snapshot, error)
		cache int64
		write func(b *batch.Batch)
		want  faultkv.Counts // of the commit; what a commit writes isn't compared
	}{
		{"nobody reads", nil, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, known", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, deleted", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.Delete(chunk(0)) }, faultkv.Counts{Commits: commit}},
		{"of pages, twice", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.Delete(chunk(0)); b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit}},
		{"of pages, a new one", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.PutPrior(chunk(9), pageOf(9), batch.Absent) }, faultkv.Counts{Commits: commit}},
		{"of pages, an empty range", (*Actor).pageSnapshot, 0, func(b *batch.Batch) {
			b.DeleteRangePrior(chunk(5), nil, batch.Freed(0))
			b.Put(chunk(0), pageOf(9))
		}, faultkv.Counts{Commits: commit}},
		{"of pages, not known", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.PutPrior(chunk(2), pageOf(9), batch.Stored(4096)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of pages, a range", (*Actor).pageSnapshot, 0, func(b *batch.Batch) { b.DeleteRangePrior(chunk(0), chunk(1), batch.Freed(4096+9)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of pages, no cache", (*Actor).pageSnapshot, -1, func(b *batch.Batch) { b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
		{"of everything", (*Actor).snapshotOfAll, 0, func(b *batch.Batch) { b.Put(chunk(0), pageOf(9)) }, faultkv.Counts{Commits: commit, Snapshots: 1}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s, eng := openFar(t, tt.cache)
			a := openActor(t, s)
			writePages(t, a, 3)
			if s.cache != nil {
				s.cache.remove(a.tip.tenant, chunk(2))
			}
			eng.Reset()
			var snaps []*Snapshot
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
				if _, err := snap.Page(ctx, chunk(9), nil); err != ErrNotFound {
					t.Errorf("a new page in an old snapshot: %v", err)
				}
				must(t, snap.Close())
			}
			if n := len(a.tip.undos) + len(a.tip.states); n > 0 || a.tip.held != 0 {
				t.Errorf("%d undos and states are left, %d bytes", n, a.tip.held)
			}
		})
	}
}

func (a *Actor) pageSnapshot() (*Snapshot, error)  { return a.PageSnapshot(ctx) }
func (a *Actor) snapshotOfAll() (*Snapshot, error) { return a.Snapshot(ctx) }

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
		if a.tip.held > s.cache.bytes/undoShare {
			t.Fatalf("%d bytes are held", a.tip.held)
		}
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
	if !errors.Is(err, ErrNotPinned) || !errors.Is(err, faultkv.ErrInjected) || aborted != 1 {
		t.Errorf("got %v, want %v; aborted %d times", err, ErrNotPinned, aborted)
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
	s.cache.remove(a.tip.tenant, chunk(1))
	if _, err := snap.Page(ctx, chunk(1), nil); !errors.Is(err, ErrNotPinned) || !errors.Is(err, faultkv.ErrInjected) {
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
		s.cache.remove(a.tip.tenant, chunk(i))
	}
	for _, r := range []Reader{a, snap} {
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
		for _, err := range r.List(ctx, ListOptions{}) {
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

// sending returns an actor whose commit of pages 0 and 1, of which memory has the
// second, is held at a point; what ends it returns what became of it.
func sending(t *testing.T, s *Store, eng *faultkv.Engine, rule faultkv.Rule) (a *Actor, end func() error) {
	t.Helper()
	a = openActor(t, s)
	writePages(t, a, 3)
	s.cache.remove(a.tip.tenant, chunk(0))
	p := eng.Pause(rule)
	done := make(chan error)
	go func() {
		var b batch.Batch
		b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
		b.PutPrior(chunk(1), pageOf(9), batch.Stored(4096))
		done <- a.Commit(ctx, &b)
	}()
	<-p.Reached()
	return a, func() error {
		p.Release()
		return <-done
	}
}

// TestReadWhileSending: nobody believes what may be of the state before a commit or
// after it, and nobody keeps it.
func TestReadWhileSending(t *testing.T) {
	for _, tt := range []struct {
		what string
		rule faultkv.Rule
		want error // of the read
		page int
	}{
		{"before", faultkv.Rule{Point: faultkv.BeforeCommit}, nil, 9},
		{"after", faultkv.Rule{Point: faultkv.AfterApply}, nil, 9},
		{"failed", faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge}, nil, 0},
		{"lost", faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}, ErrPoisoned, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s, eng := openFar(t, 0)
			a, end := sending(t, s, eng, tt.rule)
			readPage(t, a, 1) // memory has it, and it isn't replaced yet
			readPage(t, a, 2) // isn't touched
			asked := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
			got := make(chan error)
			var page []byte
			go func() {
				var err error
				page, err = a.Page(ctx, chunk(0), nil)
				got <- err
			}()
			<-asked.Reached()
			asked.Release()
			late, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := a.Page(late, chunk(0), nil); !errors.Is(err, context.Canceled) {
				t.Errorf("while the commit is being sent: %v", err)
			}
			if e := a.tip.cached(chunk(0)); e != nil {
				t.Errorf("an answer was kept: %q", e.value[:4])
			}
			if err := end(); (err != nil) != (tt.rule.Err != nil) {
				t.Errorf("the commit: %v", err)
			}
			if err := <-got; !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			} else if err == nil && string(page) != string(pageOf(tt.page)) {
				t.Errorf("page %.4q, want %d", page, tt.page)
			}
		})
	}
}

// TestPanicWhileSending: nobody waits for a commit whose engine panicked.
func TestPanicWhileSending(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	s.cache.forget()
	p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			panic("as a test wants it")
		}
		return nil
	})
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		var b batch.Batch
		b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
		_ = a.Commit(ctx, &b)
	}()
	<-p.Reached()
	got := make(chan error)
	asked := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
	go func() {
		_, err := a.Page(ctx, chunk(0), nil)
		got <- err
	}()
	<-asked.Reached()
	asked.Release()
	p.Release()
	if <-panicked == nil {
		t.Error("nothing panicked")
	}
	if err := <-got; !errors.Is(err, ErrPoisoned) {
		t.Errorf("got %v, want %v", err, ErrPoisoned)
	}
	eng.Hook(nil)
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
	if n := len(a.tip.undos); n > 0 || a.tip.held > 0 || a.tip.sending != nil {
		t.Errorf("%d undos of %d bytes", n, a.tip.held)
	}
	readPage(t, snap, 0)
	readPage(t, a, 0)
	must(t, snap.Close())
}

// TestSnapshotWhileSending: a snapshot opened then shows one state.
func TestSnapshotWhileSending(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		s, eng := openFar(t, 0)
		a, end := sending(t, s, eng, faultkv.Rule{Point: point})
		open := func(how func(*Actor) (*Snapshot, error)) *Snapshot {
			snap, err := how(a)
			must(t, err)
			return snap
		}
		snaps := []*Snapshot{open((*Actor).pageSnapshot), open((*Actor).snapshotOfAll)}
		if n := eng.Counts().Snapshots; n != 2 {
			t.Errorf("%d snapshots, want 2: nothing was prepared", n)
		}
		look := func() {
			for _, snap := range snaps {
				for i, want := range map[uint64][]int{1: {0, 1}, 2: {9, 9}}[snap.Seq()] {
					page, err := snap.Page(ctx, chunk(i), nil)
					must(t, err)
					if string(page) != string(pageOf(want)) {
						t.Errorf("state %d has page %.4q", snap.Seq(), page)
					}
				}
			}
		}
		look()
		must(t, end())
		look()
		must(t, errors.Join(snaps[0].Close(), snaps[1].Close()))
	}
	// When memory has what the commit replaces, opening one asks nothing then either.
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	p := eng.Pause(faultkv.Rule{Point: faultkv.AfterApply})
	done := make(chan error)
	go func() { done <- a.Put(ctx, chunk(0), pageOf(9)) }()
	<-p.Reached()
	eng.Reset()
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	readPage(t, snap, 0)
	readPage(t, a, 0)
	if c := eng.Counts(); c != (faultkv.Counts{}) {
		t.Errorf("%+v", c)
	}
	p.Release()
	must(t, <-done)
	readPage(t, snap, 0)
	must(t, snap.Close())
}

// TestLateAnswer: an answer that comes after the handle was closed, or fenced, isn't
// kept for who has the actor then.
func TestLateAnswer(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		s, eng := openFar(t, 0)
		a := openActor(t, s)
		writePages(t, a, 1)
		s.cache.remove(a.tip.tenant, chunk(0))
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeGet, Times: 2})
		done := make(chan error)
		for _, r := range []Reader{a, snap} {
			go func() {
				_, err := r.Page(ctx, chunk(0), nil)
				done <- err
			}()
		}
		<-p.Reached()
		for p.Hits() < 2 {
			runtime.Gosched()
		}
		if fenced {
			s = openStore(t, eng, batch.Limits{})
		} else {
			must(t, a.Close())
		}
		b := openActor(t, s)
		if !fenced && b.tip.tenant != a.tip.tenant {
			t.Error("what the handle knew is forgotten")
		}
		p.Release()
		for range 2 {
			if err := <-done; fenced != errors.Is(err, ErrFenced) {
				t.Errorf("fenced %v: %v", fenced, err)
			}
		}
		if e := a.tip.cached(chunk(0)); e != nil {
			t.Error("a late answer was kept")
		}
		must(t, b.Put(ctx, chunk(0), pageOf(1)))
		must(t, errors.Join(snap.Close(), a.Close()))
	}
}

// TestLazyOrdered: every part of an ordered batch is a state of its own.
func TestLazyOrdered(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	n := s.Limits().Entries
	writePages(t, a, 2*n)
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	s.cache.remove(a.tip.tenant, chunk(2*n-1)) // so the second part has to pin
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeSnapshot})
	var b batch.Batch
	b.Mode = batch.Ordered
	for i := range 2 * n {
		b.PutPrior(chunk(i), pageOf(i+1), batch.Stored(4096))
	}
	err = a.Commit(ctx, &b)
	var part *OrderedError
	if !errors.As(err, &part) || part.Landed != 1 || !errors.Is(err, ErrNotPinned) {
		t.Errorf("got %v, want %v of the second part", err, ErrNotPinned)
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

// alone is a far engine that other processes may use, too.
type alone struct{ kv.Engine }

func (alone) Limits() kv.Limits { return kv.Limits{Far: true} }

// TestLazyHosts: where others may take the actor, a transaction of what memory has is
// one commit as well, thanks to the lease.
func TestLazyHosts(t *testing.T) {
	eng := faultkv.New(alone{memkv.New()})
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
