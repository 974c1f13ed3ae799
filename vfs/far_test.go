package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A farRig is an engine that counts, and stores that are opened on it one after the
// other, as by processes that come and go.
type farRig struct {
	Engine *faultkv.Engine
	Store  *actorstore.Store
	Actor  *actorstore.Actor
	cache  int64 // Options.CacheBytes
}

var farID = actorstore.IDFromName("far")

func newFarRig(t testing.TB) *farRig {
	t.Helper()
	r := &farRig{Engine: faultkv.New(engines.Shared(engines.Far(memkv.New())))}
	t.Cleanup(func() {
		if err := r.Engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// farTTL is the lease of a farRig's host. It is so long that the counts include neither its renewal
// nor, when that is late, a look at the owner.
const farTTL = time.Hour

// start opens the store and the actor, with nothing in memory.
func (r *farRig) start(t testing.TB) {
	t.Helper()
	store, err := actorstore.Open(t.Context(), r.Engine, &actorstore.Options{
		CacheBytes: r.cache, Limits: rig.Limits(t, batch.Limits{}), Host: actorstore.HostOptions{TTL: farTTL},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Store = store
	r.Engine.Reset()
	if r.Actor, err = store.Actor(t.Context(), farID, &actorstore.ActorOptions{Layout: layout}); err != nil {
		t.Fatal(err)
	}
}

// stop closes both.
func (r *farRig) stop(t testing.TB) {
	t.Helper()
	if err := r.Actor.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Store.Close(); err != nil {
		t.Error(err)
	}
}

// session runs f on a pool of a process of its own.
func (r *farRig) session(t testing.TB, opts *vfs.Options, f func(db *vfs.DB)) {
	t.Helper()
	r.start(t)
	defer r.stop(t)
	db, err := vfs.Open(t.Context(), r.Actor, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(db)
}

// reads is how often the engine was asked since the last time.
func (r *farRig) reads() int64 {
	c := r.Engine.Counts()
	r.Engine.Reset()
	return c.Gets + c.Scans
}

var single = &vfs.Options{MaxConns: 1}

// fill makes tables of about so many bytes in all, whose pages alternate.
func (r *farRig) fill(t testing.TB, tables int, size int64) {
	t.Helper()
	r.session(t, single, func(db *vfs.DB) {
		for k := range tables {
			exec(t, db, fmt.Sprintf("create table t%d(id integer primary key, b)", k))
		}
		rows := rowsIn(size, tables)
		for from := int64(0); from < rows; from += perCommit {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for id := from; id < min(from+perCommit, rows); id += 4 {
				for k := range tables {
					exec(t, tx, fmt.Sprintf("insert into t%d select ?1 + column1, randomblob(950) from (values (1), (2), (3), (4))", k), id)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// rowsIn is how many rows fill inserts into each table.
func rowsIn(size int64, tables int) int64 { return size / int64(tables) / 4000 * 4 }

// perCommit is how many rows fill inserts with one transaction.
const perCommit = 2000

// large skips a test that one goroutine does on 50 MiB, where the race detector would
// take minutes to find nothing.
func large(t *testing.T) {
	t.Helper()
	if testkit.Race {
		t.Skip("50 MiB, and only one goroutine")
	}
}

// TestFarScan counts the reads of a cold scan of 50 MiB: of one table, and of one of two
// whose pages alternate; in either direction.
func TestFarScan(t *testing.T) {
	t.Parallel()
	large(t)
	for tables := 1; tables <= 2; tables++ {
		r := newFarRig(t)
		r.fill(t, tables, 50<<20)
		for _, order := range []string{"asc", "desc"} {
			t.Run(fmt.Sprintf("%d/%s", tables, order), func(t *testing.T) {
				r.session(t, single, func(db *vfs.DB) {
					if n := one[int](t, db, "select sum(length(b) = 950) from (select b from t0 order by id "+order+")"); n != int(rowsIn(50<<20, tables)) {
						t.Errorf("%d rows", n)
					}
					s := db.Stats()
					if n := r.reads(); n > 60 || s.PageReads < 12800/int64(tables) {
						t.Errorf("%d reads, %+v", n, s)
					}
					if s.CacheHits < s.PageReads*9/10 || s.PrefetchUsed+s.PrefetchWasted > s.Prefetched || s.Prefetches > 60 {
						t.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

// TestFarScanFirst is a cold scan without hints.
func TestFarScanFirst(t *testing.T) {
	t.Parallel()
	large(t)
	r := newFarRig(t)
	r.fill(t, 1, 50<<20)
	r.start(t)
	if err := r.Actor.StoreHints(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.stop(t)
	r.session(t, single, func(db *vfs.DB) {
		one[int](t, db, "select sum(length(b)) from t0")
		if n := r.reads(); n > 62 {
			t.Errorf("%d reads", n)
		}
	})
}

// TestFarOpen counts the reads of a cold opening and a first row, anywhere in the table.
func TestFarOpen(t *testing.T) {
	t.Parallel()
	large(t)
	r := newFarRig(t)
	r.fill(t, 1, 50<<20)
	for _, id := range []int{1, 2, 25_000, 40_001, int(rowsIn(50<<20, 1))} {
		r.session(t, single, func(db *vfs.DB) {
			if n := one[int](t, db, "select length(b) from t0 where id = ?", id); n != 950 {
				t.Errorf("row %d has %d bytes", id, n)
			}
			if n := r.reads(); n > 3 {
				t.Errorf("row %d: %d reads", id, n)
			}
		})
	}
}

// TestFarOpenNew counts the reads of an actor that is new.
func TestFarOpenNew(t *testing.T) {
	r := newFarRig(t)
	r.session(t, single, func(db *vfs.DB) {
		exec(t, db, "create table t(a)")
		if n := r.reads(); n > 3 {
			t.Errorf("%d reads", n)
		}
	})
}

// TestFarTransaction counts what a warm transaction of one row takes.
func TestFarTransaction(t *testing.T) {
	r := newFarRig(t)
	r.fill(t, 1, 5<<20)
	r.session(t, single, func(db *vfs.DB) {
		for id := range 20 {
			exec(t, db, "update t0 set b = randomblob(940) where id = 1000")
			// The first one fetches.
			if c := r.Engine.Counts(); id > 0 && (c.Gets+c.Scans+c.Snapshots > 0 || c.Commits != 1) {
				t.Errorf("transaction %d: %+v", id, c)
			}
			r.Engine.Reset()
		}
	})
}

// TestFarScattered reads pages in no order.
func TestFarScattered(t *testing.T) {
	t.Parallel()
	large(t)
	r := newFarRig(t)
	r.fill(t, 1, 50<<20)
	for seed := range uint64(5) {
		r.session(t, single, func(db *vfs.DB) {
			random := rand.New(rand.NewPCG(seed, 1))
			before := r.reads()
			var fetched atomic.Int64
			r.Engine.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.BeforeEntry || op.Point == faultkv.BeforeGet {
					fetched.Add(1)
				}
				return nil
			})
			defer r.Engine.Hook(nil)
			const rows = 100
			for range rows {
				one[int](t, db, "select length(b) from t0 where id = ?", 1+random.Int64N(rowsIn(50<<20, 1)))
			}
			// A chunk is two entries of a scan, or one Get.
			s := db.Stats()
			if n := r.reads(); n > rows || fetched.Load() > 3*rows || s.Prefetched > rows {
				t.Errorf("%d reads before, then %d of %d entries, %+v", before, n, fetched.Load(), s)
			}
		})
	}
}
