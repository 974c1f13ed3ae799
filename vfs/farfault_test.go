package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/vfs"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// ofChunks matches the scans by which chunks of the main file are read ahead.
func ofChunks(op faultkv.Op) bool {
	return bytes.Contains(op.Range.Start, []byte{9, 1, 0, 0xff}) // 00 is escaped
}

// TestFarPrefetchFails fails every read ahead: only the number of reads shows it.
func TestFarPrefetchFails(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 2<<20)
	for name, rule := range map[string]faultkv.Rule{
		"at once":       {Point: faultkv.BeforeScan, Match: ofChunks, Times: faultkv.Forever},
		"in the middle": {Point: faultkv.BeforeEntry, Match: ofChunks, Times: faultkv.Forever, Skip: 5},
		"now and then":  {Point: faultkv.BeforeEntry, Match: ofChunks, Times: 400, Skip: 600},
	} {
		t.Run(name, func(t *testing.T) {
			r.session(t, single, func(db *vfs.DB) {
				exec(t, db, "update t0 set b = randomblob(950) where id = 1") // looks for what a crash left
				f := r.Engine.Fail(rule)
				defer r.Engine.Heal()
				if n := one[int64](t, db, "select sum(length(b) = 950) from t0"); n != rowsIn(2<<20, 1) {
					t.Errorf("%d rows", n)
				}
				s := db.Stats()
				if f.Hits() == 0 || s.PrefetchUsed+s.PrefetchWasted > s.Prefetched {
					t.Errorf("%d faults, %+v", f.Hits(), s)
				}
				exec(t, db, "update t0 set b = zeroblob(900) where id % 7 = 0")
				exec(t, db, "update t0 set b = zeroblob(950) where id % 7 = 0")
				if db.Cause() != nil {
					t.Error(db.Cause())
				}
			})
			r.session(t, single, func(db *vfs.DB) {
				r.Engine.Fail(rule)
				defer r.Engine.Heal()
				// The page itself is another matter.
				r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet})
				var n int
				if err := db.QueryRowContext(t.Context(), "select sum(length(b)) from t0").Scan(&n); !errors.Is(err, faultkv.ErrInjected) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestFarInterrupt ends a statement while the engine is at what it reads ahead.
func TestFarInterrupt(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 2<<20)
	r.session(t, single, func(db *vfs.DB) {
		p := r.Engine.Pause(faultkv.Rule{Point: faultkv.BeforeScan, Match: ofChunks, Skip: 2})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			var n int
			failed <- db.QueryRowContext(ctx, "select sum(length(b)) from t0").Scan(&n)
		}()
		<-p.Reached()
		cancel()
		p.Release()
		if err := <-failed; !errors.Is(err, context.Canceled) && !errors.Is(err, sqlite3.INTERRUPT) {
			t.Errorf("got %v", err)
		}
		if n := one[int64](t, db, "select sum(length(b) = 950) from t0"); n != rowsIn(2<<20, 1) {
			t.Errorf("%d rows", n)
		}
	})
}

// TestFarOpenFails opens a database when what opening reads at once can't be read.
func TestFarOpenFails(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 2<<20)
	r.start(t)
	defer r.stop(t)
	r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
	db, err := vfs.Open(t.Context(), r.Actor, single)
	if err != nil {
		t.Fatal(err)
	}
	intact(t, db)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Times: faultkv.Forever})
	if _, err := vfs.Open(t.Context(), r.Actor, single); !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("got %v", err)
	}
	r.Engine.Heal()
	// A failure to store hints has no other effect.
	if err := r.Actor.StoreHints(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if db, err = vfs.Open(t.Context(), r.Actor, single); err != nil {
		t.Fatal(err)
	}
	one[int](t, db, "select sum(length(b)) from t0")
	f := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := db.Close(); err != nil || f.Hits() != 1 {
		t.Errorf("%v, %d faults", err, f.Hits())
	}
}

// TestFarLeftovers finds what a crash left: later than on a near engine, and before
// anything is written beside it.
func TestFarLeftovers(t *testing.T) {
	t.Parallel()
	chunk := func(tag actorstore.FileTag, i uint32) []byte {
		return layout.AppendFileChunk(nil, tag, i)
	}
	for name, keys := range map[string][][]byte{
		"nothing":           nil,
		"beyond the end":    {chunk(actorstore.FileMain, 1000), chunk(actorstore.FileMain, 2000)},
		"of a journal":      {chunk(actorstore.FileJournal, 0), chunk(actorstore.FileJournal, 9)},
		"of a log":          {chunk(actorstore.FileWAL, 3)},
		"of the older form": {layout.AppendNamedFileChunk(nil, "a.db", 3)},
		"of all":            {chunk(actorstore.FileMain, 1000), chunk(actorstore.FileJournal, 0), chunk(actorstore.FileWAL, 0), layout.AppendNamedFileChunk(nil, "a.db", 3)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFarRig(t)
			r.fill(t, 1, 100<<10)
			r.start(t)
			var b batch.Batch
			for _, key := range keys {
				b.Put(key, []byte("left"))
			}
			if err := r.Actor.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			r.stop(t)
			r.session(t, single, func(db *vfs.DB) {
				one[int](t, db, "select length(b) from t0 limit 1")
				if n := r.reads(); n > 3 {
					t.Errorf("%d reads", n)
				}
				exec(t, db, "update t0 set b = 'first' where id = 1")
				if n := r.reads(); n > 1 && keys == nil {
					t.Errorf("the first transaction took %d reads", n)
				}
				exec(t, db, "with n(i) as (values (1) union all select i + 1 from n where i < 2000) insert into t0(b) select zeroblob(3000) from n")
				view, err := r.Store.View(t.Context(), farID)
				if err != nil {
					t.Fatal(err)
				}
				for f, err := range vfs.Check(t.Context(), view, nil) {
					t.Error(f, err)
				}
				for f, err := range view.Check(t.Context()) { // the quota is right
					t.Error(f, err)
				}
				if err := view.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFarLeftoversFail can't find out what a crash left: nothing is written then, and it
// is tried again.
func TestFarLeftoversFail(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 100<<10)
	r.session(t, single, func(db *vfs.DB) {
		one[int](t, db, "select count(*) from t0")
		r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Match: ofChunks, Times: faultkv.Forever})
		r.Engine.Reset()
		_, err := db.ExecContext(t.Context(), "update t0 set b = 'first' where id = 1")
		if c := r.Engine.Counts(); !errors.Is(err, faultkv.ErrInjected) || c.Commits > 0 {
			t.Errorf("%v, %+v", err, c)
		}
		r.Engine.Heal()
		exec(t, db, "update t0 set b = 'first' where id = 1")
		if got := one[string](t, db, "select b from t0 where id = 1"); got != "first" {
			t.Error(got)
		}
	})
}

// TestFarPlain is what an engine costs that can't read several ranges at once, or of
// which only the snapshots can.
func TestFarPlain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		engine kv.Engine
		reads  int64
	}{
		"snapshots can": {struct{ kv.Engine }{engines.Far(memkv.New())}, 3},
		"nothing can":   {engines.OneRange(engines.Shared(engines.Far(memkv.New()))), 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := &farRig{Engine: faultkv.New(tt.engine)}
			r.fill(t, 1, 20<<20)
			r.session(t, single, func(db *vfs.DB) {
				one[int](t, db, "select length(b) from t0 where id = 15000")
				if n := r.reads(); n > tt.reads {
					t.Errorf("%d reads", n)
				}
				one[int](t, db, "select sum(length(b)) from t0")
				if n := r.reads(); n > 35 {
					t.Errorf("%d reads", n)
				}
			})
		})
	}
}

// TestFarView counts the reads of a view, which doesn't own the actor.
func TestFarView(t *testing.T) {
	t.Parallel()
	r := newFarRig(t)
	r.fill(t, 1, 50<<20)
	r.start(t)
	defer r.stop(t)
	for _, q := range []struct {
		sql   string
		reads int64
	}{
		{"select length(b) from t0 where id = 33333", 3},
		{"select sum(length(b)) from t0", 60},
		{"select sum(length(b)) from (select b from t0 order by id desc)", 60},
	} {
		r.reads()
		view, err := r.Store.View(t.Context(), farID)
		if err != nil {
			t.Fatal(err)
		}
		db, err := vfs.OpenView(t.Context(), view, single)
		if err != nil {
			t.Fatal(err)
		}
		one[int](t, db, q.sql)
		if n := r.reads(); n > q.reads {
			t.Errorf("%s: %d reads", q.sql, n)
		}
		if err := errors.Join(db.Close(), view.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestFarExport counts the reads of a copy.
func TestFarExport(t *testing.T) {
	t.Parallel()
	r := newFarRig(t)
	r.fill(t, 1, 50<<20)
	r.session(t, single, func(db *vfs.DB) {
		size, err := db.Export(t.Context(), io.Discard)
		if n := r.reads(); err != nil || n > 60 {
			t.Errorf("%d bytes, %d reads, %v", size, n, err)
		}
	})
}

// TestFarPageSizes reads in order and in none with pages that are several chunks, or a
// part of one: never more than one read for a page.
func TestFarPageSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{512, 1024, 8192, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newFarRig(t)
			opts := &vfs.Options{MaxConns: 1, Pragmas: []string{fmt.Sprintf("page_size=%d", size), "cache_size=5"}}
			const rows = 8000
			r.session(t, opts, func(db *vfs.DB) {
				exec(t, db, "create table t(id integer primary key, b)")
				exec(t, db, fmt.Sprintf("with n(i) as (values (1) union all select i + 1 from n where i < %d) insert into t select i, randomblob(900) from n", rows))
			})
			r.session(t, opts, func(db *vfs.DB) {
				one[int](t, db, "select sum(length(b)) from t")
				if n := r.reads(); n > 60 {
					t.Errorf("in order: %d reads", n)
				}
			})
			r.session(t, opts, func(db *vfs.DB) {
				before := r.reads()
				random := rand.New(rand.NewPCG(1, uint64(size)))
				depth := int64(2)
				for range 50 {
					one[int](t, db, "select length(b) from t where id = ?", 1+random.IntN(rows))
				}
				if n := r.reads(); n > 50*depth {
					t.Errorf("scattered: %d reads, then %d", before, n)
				}
			})
		})
	}
}

// TestFarStats reads the counts by SQL.
func TestFarStats(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 2<<20)
	sink := newTally()
	r.session(t, &vfs.Options{MaxConns: 1, Env: part.Env{Metrics: sink}}, func(db *vfs.DB) {
		one[int](t, db, "select sum(length(b)) from t0")
		counts, s := statsOf(t, db), db.Stats()
		for name, want := range map[string]int64{"cache_hits": s.CacheHits, "prefetches": s.Prefetches, "prefetched": s.Prefetched,
			"prefetch_used": s.PrefetchUsed, "prefetch_wasted": s.PrefetchWasted} {
			if got, ok := counts[name]; !ok || got != want || want == 0 && !strings.HasSuffix(name, "wasted") {
				t.Errorf("%s=%d, %v, want %d", name, got, ok, want)
			}
		}
		seen := map[string]int64{}
		for m, n := range sink.sums {
			seen[m.String()] = n
		}
		if seen["vfs_prefetches"] != s.Prefetches || seen[`vfs_prefetched_chunks{became="used"}`] != s.PrefetchUsed || seen["vfs_cache_hits"] != s.CacheHits {
			t.Errorf("the sink was told %v, not %+v", seen, s)
		}
	})
}

// TestNearPaysNothing: on a near engine nothing of this is there.
func TestNearPaysNothing(t *testing.T) {
	h := newFile(t, memkv.New(), 50)
	if in := vfs.Holding(h).Look(); in.ReadsAhead || in.Untidy {
		t.Errorf("%+v", in)
	}
	if hints := vfs.Holding(h).Actor().Hints(); hints != nil {
		t.Errorf("hints %x", hints)
	}
}
