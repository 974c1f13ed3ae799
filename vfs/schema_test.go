package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestSchemaVersion: in each journal mode the actor is found by the version of the newest transaction, and what is stored says the same: after commits and
// rollbacks, of transactions that spill into the log, and of savepoints; after checkpoints, changes of the mode, and when the actor is opened again.
func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "wal"} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(mode, seed), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				r := newRig(t, batch.Limits{})
				pragmas := []string{"journal_mode=" + mode, "cache_size=10", "wal_autocheckpoint=50", fmt.Sprint("synchronous=", rnd.IntN(3))}
				db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1, Pragmas: pragmas})
				if err != nil {
					t.Fatal(err)
				}
				exec(t, db, "create table t(i integer primary key, b)")
				said := ""
				for n := range 120 {
					v := rnd.IntN(1 << 20)
					what := pick(rnd,
						fmt.Sprintf("pragma user_version = %d", v),
						fmt.Sprintf("begin; pragma user_version = %d; insert into t(b) values (randomblob(%d)); rollback", v, rnd.IntN(300_000)),
						fmt.Sprintf("begin; pragma user_version = %d; insert into t(b) values (randomblob(%d)); pragma user_version = %d; insert into t(b) values (randomblob(%d)); commit",
							v, rnd.IntN(300_000), v+1, rnd.IntN(300_000)),
						fmt.Sprintf("begin; insert into t(b) values (1); savepoint s; pragma user_version = %d; insert into t(b) values (randomblob(200000)); rollback to s; commit", v),
						"insert into t(b) values (randomblob(2000))",
						"delete from t where i % 2 = 0",
						"pragma wal_checkpoint("+pick(rnd, "passive", "full", "restart", "truncate")+")",
						"vacuum",
						"reopen",
					)
					if mode == "wal" && n == 80 {
						what = "pragma journal_mode = delete"
					}
					if mode == "wal" && n == 100 {
						what = "pragma journal_mode = wal"
					}
					said += what + "\n"
					if what != "reopen" {
						exec(t, db, what)
					} else {
						if err := db.Close(); err != nil {
							t.Fatal(err)
						}
						r.Reopen(t, batch.Limits{})
						if db, err = vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1, Pragmas: pragmas[1:]}); err != nil {
							t.Fatal(err)
						}
					}
					want := one[uint64](t, db, "pragma user_version")
					snap, err := r.Actor.Snapshot(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					stored, err := vfs.Schema(t.Context(), snap)
					if cerr := snap.Close(); err != nil || cerr != nil {
						t.Fatal(err, cerr)
					}
					if found := r.Actor.Attributes().Schema; found != want || stored != want {
						t.Fatalf("the version is %d; the actor is found by %d, and stores %d, after\n%s", want, found, stored, said)
					}
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func pick(rnd *rand.Rand, of ...string) string { return of[rnd.IntN(len(of))] }

// TestSchemaDuringCheckpoint: a checkpoint that has copied the first page, and stores it only when another connection has committed a newer version, doesn't
// change by which one the actor is found.
func TestSchemaDuringCheckpoint(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.CacheBytes = -1 // reads are to reach the engine
	r.Reopen(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"journal_mode=wal", "wal_autocheckpoint=0", "synchronous=full", "cache_size=5"}})
	copier, writer := oneConn(t, db), oneConn(t, db)
	exec(t, writer, "create table t(b); pragma user_version = 5; insert into t select randomblob(3000) from generate_series(1, 50)")
	reads, committed := 0, false
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point != faultkv.BeforeGet || committed {
			return nil
		}
		if reads++; reads == 20 { // of the log, in the order of the pages
			committed = true
			exec(t, writer, "pragma user_version = 7")
		}
		return nil
	})
	exec(t, copier, "pragma wal_checkpoint(passive)")
	r.Engine.Hook(nil)
	if !committed || db.Stats().Checkpoints == 0 {
		t.Fatalf("nothing was committed meanwhile, after %d reads: this tests nothing", reads)
	}
	if found := r.Actor.Attributes().Schema; found != 7 {
		t.Errorf("the actor is found by %d", found)
	}
}
