package pebblekv

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// largeCommit sets twenty keys to n, in a batch that Pebble takes for large when a
// memtable has 16 KiB.
func largeCommit(n int) *kv.Commit {
	c := &kv.Commit{Durability: kv.Applied}
	for i := range 20 {
		c.Ops = append(c.Ops, kv.Set(fmt.Appendf(nil, "k%02d", i), []byte(strconv.Itoa(n))))
	}
	for i := range 60 {
		c.Ops = append(c.Ops, kv.Clear(fmt.Appendf(nil, "not there %d", i)))
	}
	return c
}

// rounds returns the numbers that r has under the keys of largeCommit, each once.
func rounds(t testing.TB, r kv.Reader, reverse bool) string {
	t.Helper()
	seen, keys := "", 0
	for e, err := range r.Scan(ctx, kv.Range{Start: []byte("k"), End: []byte("l"), Reverse: reverse}) {
		if err != nil {
			t.Error(err)
			return ""
		}
		if keys++; seen != string(e.Value) {
			seen += string(e.Value)
		}
	}
	if keys != 20 {
		seen += fmt.Sprintf(" %d keys", keys)
	}
	return seen
}

// TestLargeApplied: a large commit is applied beside a snapshot of the state before it, of which Pebble keeps one for a while; a
// small one isn't.
func TestLargeApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := open("store", &Options{MemtableBytes: 16 << 10}, vfs.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		for want, c := range []*kv.Commit{{Ops: []kv.Op{kv.Set([]byte("small"), []byte("x"))}}, largeCommit(1)} {
			if err := db.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
			if n := db.store.db.Metrics().Snapshots.Count; n != want {
				t.Errorf("%d snapshots after %d operations, want %d", n, len(c.Ops), want)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLargeBatches reads from snapshots, and without, while large batches are applied and
// flushed. With GREENROOM_LONG it goes on until the defect of Pebble that it is about would
// have shown itself: a minute or two on two processors.
func TestLargeBatches(t *testing.T) {
	stores, commits := testkit.Pick(1, 1, 60), testkit.Pick(100, 100, 400)
	for range stores {
		db, err := open("store", &Options{MemtableBytes: 16 << 10}, vfs.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Commit(ctx, largeCommit(0)); err != nil {
			t.Fatal(err)
		}
		var over atomic.Bool
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for !over.Load() && !t.Failed() {
					readTwice(t, db)
				}
			})
		}
		for n := 1; n <= commits && !t.Failed(); n++ {
			if err := db.Commit(ctx, largeCommit(n)); err != nil {
				t.Error(err)
			}
		}
		over.Store(true)
		readers.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// readTwice reads the same snapshot in both directions, and the newest state after it.
func readTwice(t *testing.T, db *DB) {
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	a, b := rounds(t, s, false), rounds(t, s, true)
	if a != b {
		t.Errorf("a snapshot shows %s, backwards %s", a, b)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	was, err := strconv.Atoi(a)
	if err != nil {
		t.Error(err)
		return
	}
	if now, err := strconv.Atoi(rounds(t, db, false)); err != nil || now < was {
		t.Errorf("%d after %d: %v", now, was, err)
	}
}
