package actorstore_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestNearSecondRead: what is read for the third time comes from memory, also if it isn't
// there; and what was replaced meanwhile comes from there as it is now.
func TestNearSecondRead(t *testing.T) {
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 2)
	old, err := a.PageSnapshot(ctx)
	must(t, err)
	defer func() { must(t, old.Close()) }()
	for name, r := range map[string]actorstore.Reader{"actor": a, "snapshot": old} {
		key := map[string]int{"actor": 0, "snapshot": 1}[name]
		for i, want := range []int64{1, 1, 0, 0} {
			readCount(eng)
			readPage(t, r, key)
			if _, err := r.Page(ctx, chunk(key+7), nil); !errors.Is(err, actorstore.ErrNotFound) {
				t.Errorf("%s: a missing page: %v", name, err)
			}
			if n := readCount(eng); n != 2*want {
				t.Errorf("%s: time %d takes %d reads, want %d", name, i, n, 2*want)
			}
		}
	}
	readCount(eng)
	readPage(t, a, 1) // a snapshot has brought it in
	var b batch.Batch
	b.PutPrior(chunk(1), pageOf(9), batch.Stored(4096))
	b.PutPrior(chunk(7), pageOf(7), batch.Absent)
	must(t, a.Commit(ctx, &b))
	readPage(t, a, 7)
	if p, err := a.Page(ctx, chunk(1), nil); err != nil || !bytes.Equal(p, pageOf(9)) {
		t.Errorf("the new page begins with %.8q, %v", p, err)
	}
	if n := readCount(eng); n != 0 {
		t.Errorf("pages that were in use and replaced take %d reads", n)
	}
	readPage(t, old, 1)
	if _, err := old.Page(ctx, chunk(7), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("a page that is newer than the snapshot: %v", err)
	}
}

// TestNearWritten: a page that is written and never read is not kept.
func TestNearWritten(t *testing.T) {
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 1)
	readPage(t, a, 0)
	readPage(t, a, 0)
	readCount(eng)
	if readPage(t, a, 0); readCount(eng) != 0 { // a hit
		t.Fatal("what was read twice isn't there")
	}
	for range 3 { // as many hits as an entry may have
		must(t, a.Put(ctx, chunk(0), pageOf(0)))
	}
	readCount(eng)
	if readPage(t, a, 0); readCount(eng) == 0 {
		t.Error("a page is kept that is only written")
	}
}

// TestNearRanges: deleted ranges and values of more than a row.
func TestNearRanges(t *testing.T) {
	s, _ := openNear(t, 0)
	a := openActor(t, s)
	large := bytes.Repeat([]byte("x"), layout.RowSize+5)
	key := user("large")
	must(t, a.Put(ctx, key, large))
	writePages(t, a, 3)
	thrice := func(k []byte) (p []byte, err error) {
		for range 3 {
			p, err = a.Page(ctx, k, nil)
		}
		return p, err
	}
	if p, err := thrice(key); err != nil || !bytes.Equal(p, large[:layout.RowSize]) {
		t.Errorf("%d bytes, %v", len(p), err)
	}
	if v, err := a.Get(ctx, key, nil); err != nil || !bytes.Equal(v, large) {
		t.Errorf("the whole: %d bytes, %v", len(v), err)
	}
	must(t, a.Put(ctx, key, append(large[:0:0], large[1:]...)))
	if p, err := thrice(key); err != nil || len(p) != layout.RowSize {
		t.Errorf("after a put: %d bytes, %v", len(p), err)
	}
	must(t, a.Put(ctx, key, nil))
	if p, err := thrice(key); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("an empty value: %d bytes, %v", len(p), err)
	}
	for i := range 3 {
		if _, err := thrice(chunk(i)); err != nil {
			t.Error(err)
		}
	}
	start, end := actorstore.LayoutGreenroom.FileChunks(actorstore.FileMain, 1)
	var b batch.Batch
	b.DeleteRange(start, end)
	b.Put(chunk(2), pageOf(5))
	must(t, a.Apply(ctx, &b))
	if _, err := thrice(chunk(1)); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("a page in a deleted range: %v", err)
	}
	if p, err := thrice(chunk(2)); err != nil || !bytes.Equal(p, pageOf(5)) {
		t.Errorf("a page that was stored again: %.8q, %v", p, err)
	}
	readPage(t, a, 0)
	var both batch.Batch // what a batch stores and then removes
	both.Put(chunk(0), pageOf(6))
	both.DeleteRange(chunk(0), chunk(1))
	must(t, a.Apply(ctx, &both))
	if p, err := thrice(chunk(0)); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("a page that was stored and removed at once: %.4q, %v", p, err)
	}
}

// TestNearWhileSending: while a commit is under way the newest state is the engine's,
// whole; what may be of either state isn't kept, and older snapshots show theirs.
func TestNearWhileSending(t *testing.T) {
	for _, tt := range []struct {
		what        string
		rule        faultkv.Rule
		during, end int // what page 0 and 1 are
	}{
		{"before", faultkv.Rule{Point: faultkv.BeforeCommit}, 0, 9},
		{"after", faultkv.Rule{Point: faultkv.AfterApply}, 9, 9},
		{"failed", faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge}, 0, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, eng := openNear(t, 0)
				a := openActor(t, s)
				var b batch.Batch
				b.Put(chunk(0), pageOf(0))
				b.Put(chunk(1), pageOf(0))
				must(t, a.Commit(ctx, &b))
				is := func(r actorstore.Reader, want int) {
					t.Helper()
					for i := range 2 {
						if p, err := r.Page(ctx, chunk(i), nil); err != nil || !bytes.Equal(p, pageOf(want)) {
							t.Errorf("page %d is %.4q, %v, want %d", i, p, err, want)
						}
					}
				}
				for range 3 { // of page 1 there is an entry, of page 0 there isn't
					_, err := a.Page(ctx, chunk(1), nil)
					must(t, err)
				}
				_, err := a.Page(ctx, chunk(0), nil)
				must(t, err)
				before, err := a.PageSnapshot(ctx)
				must(t, err)
				p := eng.Pause(tt.rule)
				done := make(chan error)
				go func() {
					var b batch.Batch
					b.PutPrior(chunk(0), pageOf(9), batch.Stored(4096))
					b.PutPrior(chunk(1), pageOf(9), batch.Stored(4096))
					done <- a.Commit(ctx, &b)
				}()
				<-p.Reached()
				during, err := a.PageSnapshot(ctx)
				must(t, err)
				for range 3 {
					is(a, tt.during)
					is(during, tt.during)
					is(before, 0)
				}
				p.Release()
				if err := <-done; (err != nil) != (tt.rule.Err != nil) {
					t.Errorf("the commit: %v", err)
				}
				for range 3 {
					is(a, tt.end)
					is(during, tt.during)
					is(before, 0)
				}
				must(t, errors.Join(before.Close(), during.Close()))
			})
		})
	}
}

// TestNearClosed: snapshots go on when their handle is closed, beside the next writer.
func TestNearClosed(t *testing.T) {
	s, _ := openNear(t, 0)
	a := openActor(t, s)
	writePages(t, a, 2)
	for range 3 {
		readPage(t, a, 0)
	}
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	must(t, a.Close())
	b, err := s.Actor(ctx, testID, nil)
	must(t, err)
	must(t, b.Put(ctx, chunk(0), pageOf(9)))
	must(t, b.Put(ctx, chunk(1), pageOf(9)))
	for range 3 {
		readPage(t, snap, 0)
		readPage(t, snap, 1)
		if p, err := b.Page(ctx, chunk(0), nil); err != nil || !bytes.Equal(p, pageOf(9)) {
			t.Errorf("the new handle reads %.4q, %v", p, err)
		}
	}
	must(t, errors.Join(snap.Close(), b.Close()))
}

// TestNearScan: a table that fits is read from memory from the third scan on, and of one
// that is much larger than the cache nothing pushes out what is in use.
func TestNearScan(t *testing.T) {
	const pages = 1000
	s, eng := openNear(t, 8<<20)
	a := openActor(t, s)
	writePages(t, a, pages)
	for i := range 4 {
		readCount(eng)
		for k := range pages {
			readPage(t, a, k)
		}
		if n := readCount(eng); i < 2 && n < pages*9/10 || i == 3 && n > pages/20 {
			t.Errorf("scan %d takes %d reads", i, n)
		}
	}
	b, err := s.Actor(ctx, actorstore.NewID(), nil)
	must(t, err)
	writePages(t, b, 10*pages)
	for range 2 {
		for k := range 10 * pages {
			readPage(t, b, k)
		}
	}
	readCount(eng)
	for k := range pages {
		readPage(t, a, k)
	}
	if n := readCount(eng); n > pages/20 {
		t.Errorf("after scans of a table that doesn't fit, one of a table in use takes %d reads", n)
	}
	must(t, b.Close())
}

// TestNearManyRanges: more deleted ranges than are compared with void all that is older,
// of this actor alone.
func TestNearManyRanges(t *testing.T) {
	s, eng := openNear(t, 0)
	a := openActor(t, s)
	other, err := s.Actor(ctx, actorstore.NewID(), nil)
	must(t, err)
	defer func() { must(t, other.Close()) }()
	for _, a := range []*actorstore.Actor{a, other} {
		writePages(t, a, 2*8+4)
		for range 3 {
			for i := range 2*8 + 4 {
				readPage(t, a, i)
			}
		}
	}
	for i := range 2*8 + 2 {
		var b batch.Batch
		b.DeleteRange(chunk(i), chunk(i+1))
		must(t, a.Apply(ctx, &b))
	}
	for i := range 2*8 + 2 { // no call asked since, so the entries are those of before
		if _, err := a.Page(ctx, chunk(i), nil); !errors.Is(err, actorstore.ErrNotFound) {
			t.Errorf("deleted page %d: %v", i, err)
		}
	}
	readPage(t, a, 2*8+2)
	readCount(eng)
	for i := range 2*8 + 4 {
		readPage(t, other, i)
	}
	if n := readCount(eng); n > 0 {
		t.Errorf("another actor's pages took %d reads", n)
	}
}

// TestNearReopenedMeanwhile: a reader that takes a snapshot while the handle is closed, and another
// one writes, gets one state or none.
func TestNearReopenedMeanwhile(t *testing.T) {
	s, eng := openNear(t, 0)
	a, err := s.Actor(ctx, testID, nil)
	must(t, err)
	writePages(t, a, 2)
	for range 3 {
		readPage(t, a, 0) // page 1 isn't kept
	}
	p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeSnapshot})
	done := make(chan error)
	go func() {
		snap, err := a.PageSnapshot(ctx)
		if err == nil {
			err = errors.Join(errors.New("there is a snapshot"), snap.Close())
		}
		done <- err
	}()
	<-p.Reached()
	must(t, a.Close())
	b, err := s.Actor(ctx, testID, nil)
	must(t, err)
	var w batch.Batch
	w.Put(chunk(0), pageOf(9))
	w.Put(chunk(1), pageOf(9))
	must(t, b.Commit(ctx, &w))
	p.Release()
	if err := <-done; !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	must(t, b.Close())
}
