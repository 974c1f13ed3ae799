package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// openFork forks the rig's actor as it is now, and opens the database of the fork.
func openFork(t *testing.T, r *fixture, from *actorstore.Snapshot) *vfs.DB {
	t.Helper()
	id, err := r.Store.Fork(t.Context(), from, nil)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := r.Store.Actor(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), actor.Close()); err != nil {
			t.Error(err)
		}
		view, err := r.Store.View(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range vfs.Check(context.Background(), view, nil) {
			t.Errorf("the fork: %v %v", f, err)
		}
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestForkInUse: a fork between any two engine commits of transactions is sound. Its state is the
// last committed one or the one that is being committed.
func TestForkInUse(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "truncate", "wal"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{TxMemory: 1, MaxConns: 2, Pragmas: []string{"cache_size=10"}})
			if got := one[string](t, db, "pragma journal_mode="+mode); got != mode {
				t.Skipf("journal_mode %s", got)
			}
			exec(t, db, "create table t(a integer primary key, n, b); insert into t(n, b) values (0, zeroblob(3000))")
			var forks []*actorstore.Snapshot
			states := map[string]bool{}
			const state = "select count(*) || ' rows, ' || min(n) || ' to ' || max(n) from t"
			seen := func() { states[one[string](t, db, state)] = true }
			seen()
			commits, every := 0, testkit.Pick(12, 12, 5)
			r.Engine.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.AfterCommit {
					if commits++; commits%every == 0 {
						snap, err := r.Actor.Snapshot(context.Background())
						if err != nil {
							return err
						}
						forks = append(forks, snap)
					}
				}
				return nil
			})
			for i := range 6 {
				exec(t, db, fmt.Sprintf("begin immediate; update t set n = %d, b = randomblob(3000);"+
					"insert into t(n, b) with m(i) as (select 1 union all select i+1 from m where i < 300) select %[1]d, randomblob(3000) from m; commit", i+1))
				seen()
			}
			r.Engine.Hook(nil)
			if len(forks) < 4 {
				t.Fatalf("%d forks of %d commits", len(forks), commits)
			}
			for i, snap := range forks {
				fork := openFork(t, r, snap)
				if got := one[string](t, fork, state); !states[got] {
					t.Errorf("fork %d of %d: %s", i, len(forks), got)
				}
				intact(t, fork)
				exec(t, fork, "update t set n = -1")
				if err := snap.Close(); err != nil {
					t.Error(err)
				}
			}
			if got := one[int](t, db, "select min(n) from t"); got != 6 {
				t.Errorf("the original has %d", got)
			}
		})
	}
}

// A transaction that is under way, and of which parts are stored, is rolled back in
// the fork and committed in the original.
func TestForkUnfinished(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{TxMemory: 1, Pragmas: []string{"cache_size=10"}})
	exec(t, db, "create table t(a integer primary key, b blob)")
	exec(t, db, `with n(i) as (select 1 union all select i+1 from n where i < 1000)
		insert into t(b) select zeroblob(3000) from n`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "update t set b = randomblob(3000)")
	if db.Stats().Spills == 0 {
		t.Fatal("nothing of the transaction is stored")
	}
	snap, err := r.Actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fork := openFork(t, r, snap)
	if err := errors.Join(snap.Close(), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	intact(t, fork)
	if n := one[int](t, fork, "select count(*) from t where b = zeroblob(3000)"); n != 1000 {
		t.Errorf("%d rows of the fork are as they were committed", n)
	}
	if n := one[int](t, db, "select count(*) from t where b = zeroblob(3000)"); n != 0 {
		t.Errorf("%d rows of the original are as they were", n)
	}
}
