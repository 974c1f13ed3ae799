package pebblekv

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// A meteredDisk is a disk in memory that says what is free.
type meteredDisk struct {
	*disk
	total uint64
}

func newMeteredDisk(free uint64) *meteredDisk {
	m := &meteredDisk{newDisk(vfs.NewMem()), 1 << 40}
	m.setFree(free)
	return m
}

// newSmallDisk returns a disk that is small for a store with smallOptions, and empty.
func newSmallDisk() *meteredDisk {
	m := &meteredDisk{newDisk(vfs.NewMem()), smallDisk << 24}
	m.setFree(m.total)
	return m
}

// countAsked counts in n how often the disk is asked for the mark; Pebble asks it, too.
func countAsked(db *DB, n *atomic.Int32) {
	free := db.store.room.free
	db.store.room.free = func() (int64, bool, error) {
		n.Add(1)
		return free()
	}
}

func (m *meteredDisk) setFree(n uint64) {
	m.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: n, TotalBytes: m.total})
}

// wantRefused checks that a commit was refused for lack of room, with nothing applied.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, errkind.ErrNoSpace) || errors.Is(err, kv.ErrPoisoned) {
		t.Errorf("%s: got %v, want %v", what, err, errkind.ErrNoSpace)
	}
}

func noErr(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestMinFree: below the mark commits are refused and reads go on, commits that only remove may use half of what is kept, and all
// goes on when there is room.
func TestMinFree(t *testing.T) {
	for _, tt := range []struct {
		opts Options
		mark uint64
	}{
		{Options{}, 64 << 20}, {Options{MemtableBytes: 1 << 20}, 1 << 20}, {Options{MinFree: 3 << 20, MemtableBytes: 1 << 20}, 3 << 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newMeteredDisk(tt.mark)
			db, err := open("store", &tt.opts, d)
			if err != nil {
				t.Fatal(err)
			}
			noErr(t, "at the mark", errors.Join(db.Commit(ctx, numbered(0)), db.Commit(ctx, numbered(1)), db.HasRoom()))
			last := db.store.log.Last()
			d.setFree(tt.mark - 1)
			time.Sleep(askEvery)
			synctest.Wait()
			c := numbered(2)
			c.ID = kv.CommitID{1}
			if err := db.Commit(ctx, c); !errors.Is(err, kv.ErrNotApplied) {
				t.Errorf("got %v, want %v", err, kv.ErrNotApplied)
			} else {
				wantRefused(t, "below the mark", err)
			}
			if o, err := db.Outcome(ctx, c.ID); o != kv.OutcomeNotApplied || err != nil {
				t.Errorf("the outcome of what was refused: %v, %v", o, err)
			}
			wantRefused(t, "a transaction", txs(t, db).Update(ctx, setter("a", "1")))
			wantRefused(t, "HasRoom", db.HasRoom())
			if _, err := db.Get(ctx, numbered(1).Ops[0].Key, nil); err != nil {
				t.Errorf("reading: %v", err)
			}
			noErr(t, "a commit of nothing", db.Commit(ctx, &kv.Commit{}))
			if n := db.store.log.Last(); n > last+1 {
				t.Errorf("%d records were written", n-last) // one may be for the versions of transactions
			}
			remove := &kv.Commit{Ops: []kv.Op{kv.Clear(numbered(0).Ops[0].Key), kv.ClearRange([]byte("x"), []byte("y"))}}
			noErr(t, "a removal", db.Commit(ctx, remove))
			d.setFree(tt.mark/2 - 1)
			time.Sleep(askEvery)
			synctest.Wait()
			wantRefused(t, "a removal below half", db.Commit(ctx, remove))
			d.setFree(tt.mark)
			time.Sleep(askEvery)
			synctest.Wait()
			noErr(t, "with room again", errors.Join(db.Commit(ctx, numbered(2)), txs(t, db).Update(ctx, setter("a", "1")), db.HasRoom()))
			noErr(t, "Close", db.Close())
		})
	}
}

// TestMinFreeOff: a store without a mark doesn't ask the disk, and one whose disk doesn't answer refuses nothing.
func TestMinFreeOff(t *testing.T) {
	d := newMeteredDisk(0)
	db, err := open("store", &Options{MinFree: -1}, d)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	countAsked(db, &asked)
	noErr(t, "without a mark", errors.Join(db.Commit(ctx, numbered(0)), db.HasRoom()))
	if n := asked.Load(); n != 0 {
		t.Errorf("the disk was asked %d times", n)
	}
	noErr(t, "Close", db.Close())
	d.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpGetDiskUsage {
			return errBroken
		}
		return nil
	})
	if db, err = open("store", nil, d); err != nil {
		t.Fatal(err)
	}
	noErr(t, "a disk that doesn't answer", db.Commit(ctx, numbered(1)))
	if err := db.HasRoom(); !errors.Is(err, errBroken) {
		t.Errorf("HasRoom of a disk that doesn't answer: %v", err)
	}
	noErr(t, "Close", db.Close())
}

// TestMinFreeAsked: the disk is asked once in askEvery, and in askBytes, however many commits there are, refused ones too.
func TestMinFreeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMeteredDisk(1 << 40)
		db, err := open("store", nil, d)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		countAsked(db, &asked)
		want := func(what string, n int32) {
			t.Helper()
			if got := asked.Swap(0); got != n {
				t.Errorf("%s: the disk was asked %d times, and not %d", what, got, n)
			}
		}
		for n := range 500 { // of 4 KiB each
			noErr(t, "a commit", db.Commit(ctx, numbered(n)))
		}
		want("at one moment", 1)
		for n := range 2048 {
			noErr(t, "a commit", db.Commit(ctx, numbered(n)))
		}
		want("after so many bytes", 2)
		time.Sleep(askEvery)
		synctest.Wait()
		d.setFree(0)
		for n := range 100 {
			wantRefused(t, "without room", db.Commit(ctx, numbered(n)))
		}
		want("after some time", 1)
		noErr(t, "Close", db.Close())
	})
}

// TestMinFreeLarge: a commit that leaves less than the mark is refused although smaller ones aren't.
func TestMinFreeLarge(t *testing.T) {
	d := newMeteredDisk(80 << 20)
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	large := &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), bytes.Repeat([]byte("x"), 17<<20))}}
	wantRefused(t, "a large commit", db.Commit(ctx, large))
	noErr(t, "a small one", db.Commit(ctx, numbered(0)))
	d.setFree(90 << 20)
	noErr(t, "HasRoom", db.HasRoom())
	noErr(t, "the large one with room", db.Commit(ctx, large))
	noErr(t, "Close", db.Close())
}

// TestMinFreeFlush: what is in memory goes to the tables when the mark is reached, and so does what removes, or it would give no room back.
func TestMinFreeFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMeteredDisk(1 << 40)
		db, err := open("store", nil, d)
		if err != nil {
			t.Fatal(err)
		}
		lacks := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			n, err := flushed(db.store.db)
			noErr(t, what, err)
			if (n < db.store.log.Last()) != want {
				t.Errorf("%s: the tables have %d of %d commits", what, n, db.store.log.Last())
			}
		}
		noErr(t, "a commit", db.Commit(ctx, numbered(0)))
		lacks("with room", true)
		d.setFree(64<<20 - 1)
		time.Sleep(askEvery)
		synctest.Wait()
		wantRefused(t, "at the mark", db.Commit(ctx, numbered(1)))
		lacks("at the mark", false)
		noErr(t, "a removal", db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear([]byte("k"))}}))
		lacks("after a removal", false)
		noErr(t, "Close", db.Close())
	})
}
