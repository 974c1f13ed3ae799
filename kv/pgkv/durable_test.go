package pgkv

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestDurableKill holds that what was acknowledged as durable is there after the server
// was killed, whichever call acknowledged it. Now and then the server also writes its log
// by itself: of twenty commits, some are lost if none waits.
func TestDurableKill(t *testing.T) {
	t.Parallel()
	for how, write := range map[string]func(e *DB, db *txn.DB, key []byte) error{
		"commit": func(e *DB, _ *txn.DB, key []byte) error {
			return e.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, key)}})
		},
		"sync": func(e *DB, _ *txn.DB, key []byte) error {
			if err := e.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, key)}, Durability: kv.Applied}); err != nil {
				return err
			}
			return e.Sync(ctx, e.Incarnation())
		},
		"transaction": func(_ *DB, db *txn.DB, key []byte) error {
			return db.Update(ctx, func(tx *txn.Tx) error { return tx.Set(key, key) })
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := pgtest.Start(t)
			e := openAt(t, n.URL("schema="+n.Schema()), nil)
			db, err := txn.New(e, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("first", "1")}}); err != nil {
				t.Fatal(err)
			}
			const writes = 20
			key := func(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }
			for i := range writes {
				if err := write(e, db, key(i)); err != nil {
					t.Fatal(err)
				}
			}
			n.Kill(t)
			n.Start(t)
			for i := range writes {
				wantGet(t, e, string(key(i)), string(key(i)))
			}
		})
	}
}

// TestCrashes runs the suite of what outlives a crash, for all that may happen to a server. The
// death of one process, of which a host notices least, happens twice to each store in the
// quick form, too.
func TestCrashes(t *testing.T) {
	t.Parallel()
	again := testkit.Pick(2, 1, 2)
	for how, crash := range map[string]func(t testing.TB, n *pgtest.Node){
		"server": func(t testing.TB, n *pgtest.Node) {
			n.Kill(t)
			n.Start(t)
		},
		// After the death of one process, as for a lack of memory, the server ends all
		// others and begins anew, without having been away.
		"backend": func(t testing.TB, n *pgtest.Node) {
			before := n.SQL(t, "SELECT pg_postmaster_start_time()")
			n.KillBackend(t)
			if n.SQL(t, "SELECT pg_postmaster_start_time()") != before {
				t.Error("the server was started anew")
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := pgtest.Start(t)
			times := again
			if how == "backend" {
				times = 2
			}
			kvtest.RunCrashes(t, times, func(t testing.TB) (kv.Engine, kvtest.Crasher) {
				db, err := Open(t.Context(), n.URL(patient+"&schema="+n.Schema()), &Options{RetryFor: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return db, func(t testing.TB) kv.Engine {
					crash(t, n)
					return db
				}
			})
		})
	}
	t.Run("failover", func(t *testing.T) {
		if testkit.Short() {
			t.Skip("each failover makes a copy of the data")
		}
		t.Parallel()
		c := pgtest.StartCluster(t)
		stores := 0
		kvtest.RunCrashes(t, again, func(t testing.TB) (kv.Engine, kvtest.Crasher) {
			stores++
			db, err := Open(t.Context(), c.URL(fmt.Sprintf("%s&schema=s%d", patient, stores)), &Options{RetryFor: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return db, func(t testing.TB) kv.Engine {
				lost := c.Primary()
				lost.Kill(t)
				c.Failover(t)
				c.Rejoin(t, lost)
				return db
			}
		})
	})
}

// TestRestart: a server that ends in good order loses nothing, and its incarnation goes on.
func TestRestart(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t)
	db := openAt(t, n.URL(patient), &Options{RetryFor: time.Minute})
	in := db.Incarnation()
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("k", "1")}, Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	n.Restart(t)
	if err := db.Sync(ctx, in); err != nil {
		t.Errorf("Sync after a restart: %v", err)
	}
	wantGet(t, db, "k", "1")
}

// TestIncarnationIsNoticed: also while nothing is asked of the server.
func TestIncarnationIsNoticed(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t)
	db := openAt(t, n.URL(patient), nil)
	in := db.Incarnation()
	n.Kill(t)
	n.Start(t)
	await(t, func() bool { return db.Incarnation() > in })
}

// TestOutcomeOfUsedPlace holds that a caller that asks for an outcome and gets its answer
// late, when the doubt has ended and another commit uses the place, doesn't believe it.
func TestOutcomeOfUsedPlace(t *testing.T) {
	p, through := pgtest.NewProxy(t, newURL(t))
	db := openAt(t, through, &Options{RetryFor: -1, Calls: 1})
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "0")}}); err != nil {
		t.Fatal(err)
	}
	p.Set(pgtest.Pass, pgtest.Hold)
	id, done := kv.CommitID{7}, make(chan error, 1)
	go func() { done <- db.Commit(ctx, &kv.Commit{ID: id, Ops: []kv.Op{set("a", "1")}}) }()
	p.Await()
	p.Cut(true)
	<-done
	p.Set(pgtest.Pass, pgtest.Pass)
	d, found := db.slots.find(id)
	if !found {
		t.Fatal("no doubt")
	}
	if o, err := db.Outcome(ctx, id); o != kv.OutcomeApplied || err != nil {
		t.Fatalf("Outcome: %v, %v", o, err)
	}
	for i := range byte(3) {
		if err := db.Commit(ctx, &kv.Commit{ID: kv.CommitID{50, i}, Ops: []kv.Op{set("b", "1")}}); err != nil {
			t.Fatal(err)
		}
	}
	if applied, err := db.lookUp(ctx, d.place); applied || err != nil {
		t.Fatalf("the place was not used again: %v, %v", applied, err)
	}
	if db.slots.resolve(d, func(kv.CommitID) { t.Error("the late answer was recorded") }) {
		t.Error("the doubt ended twice")
	}
	if o, err := db.Outcome(ctx, id); o != kv.OutcomeApplied || err != nil {
		t.Errorf("Outcome after a late answer: %v, %v", o, err)
	}
}
