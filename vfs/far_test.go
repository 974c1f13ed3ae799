package vfs

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A farEngine is a store in memory that says that it is across a network, where others
// may use it too.
type farEngine struct{ kv.Engine }

func (e farEngine) Limits() kv.Limits {
	l := e.Engine.Limits()
	l.Far = true
	return l
}

func (e farEngine) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.ScanRanges(ctx, e.Engine, ranges)
}

// A farRig is an engine that counts, and stores that are opened on it one after the
// other, as by processes that come and go.
type farRig struct {
	engine *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
	cache  int64 // Options.CacheBytes
}

var farID = actorstore.IDFromName("far")

func newFarRig(t testing.TB) *farRig {
	t.Helper()
	r := &farRig{engine: faultkv.New(farEngine{memkv.New()})}
	t.Cleanup(func() {
		if err := r.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start opens the store and the actor, with nothing in memory.
func (r *farRig) start(t testing.TB) {
	t.Helper()
	store, err := actorstore.Open(t.Context(), r.engine, &actorstore.Options{CacheBytes: r.cache, Limits: fromEnv(t, batch.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	r.store = store
	r.engine.Reset()
	if r.actor, err = store.Actor(t.Context(), farID, nil); err != nil {
		t.Fatal(err)
	}
}

// stop closes both.
func (r *farRig) stop(t testing.TB) {
	t.Helper()
	if err := r.actor.Close(); err != nil {
		t.Error(err)
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// session runs f on a pool of a process of its own.
func (r *farRig) session(t testing.TB, opts *Options, f func(db *DB)) {
	t.Helper()
	r.start(t)
	defer r.stop(t)
	db, err := Open(t.Context(), r.actor, opts)
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
	c := r.engine.Counts()
	r.engine.Reset()
	return c.Gets + c.Scans
}

var single = &Options{MaxConns: 1}

// fill makes tables of about so many bytes in all, whose pages alternate.
func (r *farRig) fill(t testing.TB, tables int, size int64) {
	t.Helper()
	r.session(t, single, func(db *DB) {
		for k := range tables {
			exec(t, db, fmt.Sprintf("create table t%d(id integer primary key, b)", k))
		}
		rows := size / int64(tables) / 1000
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

// perCommit is how many rows fill inserts with one transaction.
const perCommit = 2000

func TestFarScan(t *testing.T) {
	for tables := 1; tables <= 2; tables++ {
		r := newFarRig(t)
		r.fill(t, tables, 50<<20)
		for _, order := range []string{"asc", "desc"} {
			t.Run(fmt.Sprintf("%d/%s", tables, order), func(t *testing.T) {
				r.session(t, single, func(db *DB) {
					t.Logf("opening: %d reads", r.reads())
					one[int](t, db, "select sum(length(b)) from (select b from t0 order by id "+order+")")
					t.Logf("%d reads, %+v", r.reads(), db.Stats())
				})
			})
		}
	}
}
