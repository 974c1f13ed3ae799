package vfs_test

import (
	"database/sql"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestAloneTakesNoSnapshot: a commit takes a snapshot for readers only if there is another
// connection, or something that may wait for one.
func TestAloneTakesNoSnapshot(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "CREATE TABLE t(x)")
	snapshots := func(do func()) int64 {
		before := r.Engine.Counts().Snapshots
		do()
		return r.Engine.Counts().Snapshots - before
	}
	insert := func() { exec(t, db, "INSERT INTO t VALUES(1)") }
	update := func(stage func(*batch.Batch)) func() {
		return func() {
			err := db.Update(t.Context(), func(tx *vfs.Tx) error {
				stage(tx.Batch())
				_, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES(1)")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	insert()
	if n := snapshots(insert); n != 0 {
		t.Errorf("a commit of the only connection takes %d snapshots, want none", n)
	}
	if n := snapshots(update(func(*batch.Batch) {})); n != 0 {
		t.Errorf("an Update by the only connection takes %d snapshots, want none", n)
	}
	if n := snapshots(update(func(b *batch.Batch) { b.OnCommit(func() {}) })); n != 1 {
		t.Errorf("an Update with a hook takes %d snapshots, want 1", n)
	}
	second := connOf(t, db)
	one[int](t, second, "SELECT count(*) FROM t")
	if n := snapshots(insert); n != 1 {
		t.Errorf("a commit beside another connection takes %d snapshots, want 1", n)
	}
}

// connOf returns a connection of the pool besides those that are in use or idle now.
func connOf(t *testing.T, db *vfs.DB) *sql.Conn {
	t.Helper()
	first, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the pool may be closed by then
	return c
}

// TestAloneOpening: a connection that is opened while the only other one commits sees what
// was committed; or what was there, if that was refused, and SQLite makes a journal.
func TestAloneOpening(t *testing.T) {
	for _, refused := range []error{nil, kv.ErrTooLarge} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, nil)
		exec(t, db, "CREATE TABLE t(x)")
		exec(t, db, "INSERT INTO t VALUES(1)")
		first, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows := make(chan int)
		var other *sql.Conn
		r.Engine.Hook(func(op faultkv.Op) error {
			if op.Point != faultkv.BeforeCommit {
				return nil
			}
			r.Engine.Hook(nil)
			go func() {
				defer close(rows)
				var n int
				if other, err = db.Conn(t.Context()); err == nil {
					err = other.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n)
				}
				rows <- n
			}()
			return refused
		})
		exec(t, first, "BEGIN IMMEDIATE")
		exec(t, first, "UPDATE t SET x = 2")
		exec(t, first, "INSERT INTO t VALUES(3)")
		exec(t, first, "COMMIT")
		n := <-rows
		<-rows
		if err != nil || n != 2 && (n != 1 || refused == nil) {
			t.Errorf("refused with %v: a connection that was opened meanwhile sees %d rows, %v", refused, n, err)
		}
		for _, c := range []*sql.Conn{first, other} {
			if n := one[int](t, c, "SELECT count(*) FROM t"); n != 2 {
				t.Errorf("refused with %v: %d rows in the end, want 2", refused, n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		intact(t, db)
	}
}
