package vfs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// hotStores yields what makes a store that a crash left with a journal to roll back,
// and the states that it may recover to.
func hotStores(t *testing.T, yield func(build func() *engines.Tape, want []string)) {
	t.Helper()
	c := crashCase{
		limits: oneBatch, pragmas: []string{"cache_size=5"}, setup: []string{table, fill},
		steps: []crashStep{{"update t set b = zeroblob(1600)", took{13, 6, 7}}},
	}
	tp, acks := c.run(t)
	hot := 0
	for n := acks[0].after; n <= tp.Len(); n++ {
		r := openRig(t, tp.At(t, n), oneBatch)
		found := isStored(t, r.Actor, layout.AppendFileMeta(nil, actorstore.FileJournal))
		closeRig(t, r)
		if found {
			hot++
			yield(func() *engines.Tape { return tp.At(t, n) }, allowed(tp, acks, n))
		}
	}
	if hot < 5 {
		t.Errorf("%d hot journals", hot)
	}
}

// TestRecoverOnMount: a hot journal is gone when Mount returns, and six connections
// that come at once all read, none of them with a busy handler, and wait for nothing.
func TestRecoverOnMount(t *testing.T) {
	stores := 0
	hotStores(t, func(build func() *engines.Tape, want []string) {
		r := openRig(t, build(), oneBatch)
		v := vfs.New(nil)
		stores++
		name := fmt.Sprintf("six-%d", stores)
		if err := errors.Join(v.Register(name), v.Mount(t.Context(), "a", r.Actor)); err != nil {
			t.Fatal(err)
		}
		db, err := vfs.DatabaseOf(v, "a")
		if err != nil {
			t.Fatal(err)
		}
		if in := db.Look(); in.Hot || in.Torn || in.Journal || in.Handles != 0 || in.Snapshot {
			t.Errorf("%+v", in)
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				c, err := sqlite3.Open("file:/a?vfs=" + name)
				if err == nil {
					err = errors.Join(c.Exec("PRAGMA busy_timeout = 0; select sum(length(b)) from t; PRAGMA integrity_check"), c.Close())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := db.Stats(); s.ReaderWaits != 0 || s.Recoveries != 1 || s.BusyWriter != 0 {
			t.Errorf("%+v", s)
		}
		if err := errors.Join(v.Unregister(), v.Unmount("a")); err != nil {
			t.Fatal(err)
		}
		pool := r.open(t, nil)
		if got := contentOf(t, pool); !slices.Contains(want, got) {
			t.Errorf("the database holds %.60s", got)
		}
	})
}

// TestRecoverFails: whatever fails while a journal is rolled back makes Mount fail,
// with the cause, and the next one goes on.
func TestRecoverFails(t *testing.T) {
	t.Parallel()
	total, stores := 0, 0
	hotStores(t, func(build func() *engines.Tape, want []string) {
		stores++
		for _, kind := range faultKinds {
			for nth, hit := stores%5, true; hit; nth++ { // the stores differ little, so the numbers do
				engine := faultkv.New(build())
				r := openRig(t, engine, oneBatch)
				fault := engine.Fail(faultkv.Rule{Point: kind.point, Skip: nth, Err: kind.err})
				v := vfs.New(nil)
				err := v.Mount(t.Context(), "a", r.Actor)
				if hit = fault.Hits() > 0; hit {
					total++
				}
				if err != nil && (!hit || !errors.Is(err, kind.err)) {
					t.Errorf("%s %d: %v", kind.name, nth, err)
				}
				if err == nil && hit && kind.point != faultkv.BeforeSnapshot && !kind.reads() {
					t.Errorf("%s %d: Mount succeeds", kind.name, nth)
				}
				engine.Heal()
				if err == nil {
					if err := v.Unmount("a"); err != nil {
						t.Error(err)
					}
				}
				closeRig(t, r)
				again := openRig(t, engine, oneBatch)
				pool, err := vfs.Open(t.Context(), again.Actor, nil)
				if err != nil {
					t.Fatalf("%s %d: opened again: %v", kind.name, nth, err)
				}
				if got := contentOf(t, pool); !slices.Contains(want, got) {
					t.Errorf("%s %d: the database holds %.60s", kind.name, nth, got)
				}
				intact(t, pool)
				if err := pool.Close(); err != nil {
					t.Error(err)
				}
				closeRig(t, again)
				nth += testkit.Pick(46, 4, 4)
			}
		}
	})
	t.Logf("%d faults", total)
}

// TestRecoverLeavesEncrypted: a journal that doesn't begin as SQLite's do is not
// SQLite's to roll back, nor to remove.
func TestRecoverLeavesEncrypted(t *testing.T) {
	hotStores(t, func(build func() *engines.Tape, _ []string) {
		tp := build()
		r := openRig(t, tp, oneBatch)
		key := layout.AppendFileChunk(nil, actorstore.FileJournal, 0)
		chunk, err := r.Actor.Get(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range chunk {
			chunk[i] ^= 0x5a
		}
		var b batch.Batch
		b.Put(key, chunk)
		if err := r.Actor.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		commits := tp.Len()
		v := vfs.New(nil)
		if err := v.Mount(t.Context(), "a", r.Actor); err != nil {
			t.Fatal(err)
		}
		if db, err := vfs.DatabaseOf(v, "a"); err != nil || !db.Look().Leftover() || tp.Len() != commits {
			t.Errorf("the journal was touched: %v", err)
		}
		if err := v.Unmount("a"); err != nil {
			t.Error(err)
		}
		closeRig(t, r)
	})
}
