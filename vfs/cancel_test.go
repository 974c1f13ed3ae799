package vfs_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// holdsNothing fails the test if a connection of the pool, all of which are idle, has
// left a lock, a snapshot, a place in the queue, a journal or pages in memory, or if
// there is more in the actor than its database.
func holdsNothing(t *testing.T, r *fixture, db *vfs.DB) {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	if in := d.Look(); in.Writing || in.Waiting != 0 || in.Dirty || in.Hot || in.Torn || in.Readers != 0 || in.Live || in.StoredLive {
		t.Errorf("%+v", in)
	}
	holdsLittle(t, db)
	if open := db.DB.Stats().InUse; open != 0 {
		t.Errorf("%d connections are in use", open)
	}
	view, err := r.Store.View(context.Background(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range vfs.Check(context.Background(), view, nil) {
		t.Errorf("%v %v", f, err)
	}
	for f, err := range view.Check(context.Background()) {
		t.Errorf("%v %v", f, err)
	}
	if err := view.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(t.Context(), "insert into log(n) values (1)"); err != nil {
		t.Errorf("the next writer: %v", err)
	}
}

// A cancelCase is work that is interrupted after each of its engine operations.
type cancelCase struct {
	name string
	run  func(ctx context.Context, db *vfs.DB) error
}

var cancelCases = []cancelCase{
	{"read", func(ctx context.Context, db *vfs.DB) error {
		rows, err := db.QueryContext(ctx, "select b from t order by a")
		if err != nil {
			return err
		}
		for rows.Next() {
			var b sql.RawBytes
			if err := rows.Scan(&b); err != nil {
				return err
			}
		}
		return rows.Err()
	}},
	{"statement", func(ctx context.Context, db *vfs.DB) error {
		_, err := db.ExecContext(ctx, "update t set b = randomblob(2000), n = n + 1")
		return err
	}},
	{"append", func(ctx context.Context, db *vfs.DB) error {
		_, err := db.ExecContext(ctx, "insert into t(n, b) select n + 1, randomblob(2000) from t")
		return err
	}},
	{"transaction", func(ctx context.Context, db *vfs.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := tx.ExecContext(ctx, "update t set b = randomblob(2000), n = n + 1"); err != nil {
				_ = tx.Rollback() // over already, or about to be: the context's end rolls back, too
				return err
			}
		}
		return tx.Commit()
	}},
	{"update", func(ctx context.Context, db *vfs.DB) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(ctx, "delete from t where a % 2 = 0")
			return err
		})
	}},
	{"index", func(ctx context.Context, db *vfs.DB) error {
		_, err := db.ExecContext(ctx, "create index i on t(b)")
		return err
	}},
	{"vacuum", func(ctx context.Context, db *vfs.DB) error {
		_, err := db.ExecContext(ctx, "vacuum")
		return err
	}},
}

// TestCancel ends the context of statements and transactions after each operation of
// the engine in turn, in the middle of a commit too: what was interrupted is there as a
// whole or not at all, and nothing else is left of it.
func TestCancel(t *testing.T) {
	for _, limits := range []batch.Limits{{}, {AtomicBatches: 1}} {
		for _, c := range cancelCases {
			t.Run(fmt.Sprintf("%d batches/%s", limits.AtomicBatches, c.name), func(t *testing.T) {
				t.Parallel()
				cancelled, points := 0, 0
				sparse := testkit.Pick(2, 3, 8) // every early point, and fewer of the later ones
				for at := 1; ; at += 1 + at/sparse {
					over, err := cancelAt(t, c, limits, at)
					if err != nil {
						cancelled++
					}
					if points++; over {
						break
					}
				}
				if points < 4 || cancelled == 0 {
					t.Errorf("%d of %d points cancelled it", cancelled, points)
				}
			})
		}
	}
}

// cancelAt runs the case with a context that ends after the engine's operation number
// at, and says whether the case was over before.
func cancelAt(t *testing.T, c cancelCase, limits batch.Limits, at int) (over bool, cancelled error) {
	t.Helper()
	r := newRig(t, limits)
	db := r.open(t, &vfs.Options{TxMemory: 1, MaxConns: 2, Pragmas: []string{"cache_size=20"}})
	exec(t, db, "create table log(n); create table t(a integer primary key, n, b)")
	exec(t, db, `with m(i) as (select 1 union all select i+1 from m where i < 500)
		insert into t(n, b) select 0, randomblob(2000) from m`)
	const state = "select count(*) || ' rows of ' || min(n) || ' to ' || max(n) || ', ' || (select count(*) from sqlite_schema) from t"
	before := one[string](t, db, state)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ops atomic.Int64 // database/sql rolls back on a goroutine of its own
	r.Engine.Hook(func(faultkv.Op) error {
		if ops.Add(1) == int64(at) {
			cancel()
		}
		return nil
	})
	err := c.run(ctx, db)
	r.Engine.Hook(nil)
	n := int(ops.Load())
	// A transaction whose context is over is rolled back by a goroutine of
	// database/sql; a connection for writing comes when it is done.
	holdsNothingSoon(t, r, db)
	after := one[string](t, db, state)
	switch {
	case err == nil && n < at:
		return true, nil
	case err != nil && ctx.Err() == nil:
		t.Fatalf("after operation %d: %v", at, err)
	case err != nil && after != before && !landed[c.name]:
		t.Errorf("cancelled after operation %d (%v): %s, before %s", at, err, after, before)
	}
	intact(t, db)
	return n < at, err
}

// landed are the cases that may have been carried out although they report that they
// were interrupted: the context ended when COMMIT had done its work.
var landed = map[string]bool{"transaction": true, "update": true}

// holdsNothingSoon is holdsNothing once database/sql has given all connections back.
func holdsNothingSoon(t *testing.T, r *fixture, db *vfs.DB) {
	t.Helper()
	// As many connections as the pool has can be had only when none is in use.
	var conns []*sql.Conn
	for range db.DB.Stats().MaxOpenConnections {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	holdsNothing(t, r, db)
}

// A statement that computes for ever, and one that waits for its turn to write, end
// with their contexts.
func TestCancelWithoutIO(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 3})
	exec(t, db, "create table log(n)")
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := db.QueryContext(ctx, "with n(i) as (select 1 union all select i+1 from n) select i from n")
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	cancel()
	for rows.Next() {
		continue
	}
	if err := rows.Err(); err == nil {
		t.Error("it ended without an error")
	}
	for _, query := range []string{
		"with n(i) as (select 1 union all select i+1 from n) select count(*) from n",
		"with n(i) as (select 1 union all select i+1 from n) insert into log select count(*) from n",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		go func() {
			<-begun
			cancel()
		}()
		close(begun)
		if _, err := db.ExecContext(ctx, query); err == nil {
			t.Errorf("%s ended without an error", query)
		}
	}
	holdsNothingSoon(t, r, db)
}
