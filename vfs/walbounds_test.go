package vfs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// TestWALCounts: a small transaction is one engine commit, at every level.
func TestWALCounts(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL", "OFF"} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: []string{"synchronous=" + sync}, MaxConns: 1})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, b)")
		exec(t, db, "insert into t values (1, 0)")
		before := r.Engine.Counts()
		for i := range 20 {
			exec(t, db, "update t set b = ?", i+1)
		}
		after := r.Engine.Counts()
		if got := after.Commits - before.Commits; got != 20 {
			t.Errorf("synchronous=%s: 20 transactions are %d engine commits", sync, got)
		}
		if got := after.Gets - before.Gets + after.Scans - before.Scans; got > 2 {
			t.Errorf("synchronous=%s: 20 transactions are %d reads", sync, got)
		}
		if got := db.Stats().LogCommits; got != 22 {
			t.Errorf("synchronous=%s: %d commits of the log were counted", sync, got)
		}
	}
}

// TestWALQuota: a transaction for which the log has no room is SQLITE_FULL, and gone.
func TestWALQuota(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL", "OFF"} {
		r := newRig(t, batch.Limits{Storage: 200_000})
		db := r.open(t, &vfs.Options{Pragmas: []string{"synchronous=" + sync}})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, b)")
		exec(t, db, "insert into t(b) values (1)")
		for range 3 {
			_, err := db.ExecContext(t.Context(), "insert into t(b) select randomblob(3000) from generate_series(1, 80)")
			if !errors.Is(err, sqlite3.FULL) || !errors.Is(vfs.Cause(err), actorstore.ErrQuota) && !errors.Is(db.Cause(), actorstore.ErrQuota) {
				t.Fatalf("synchronous=%s: %v, cause %v", sync, err, db.Cause())
			}
			if got := one[int](t, db, "select count(*) from t"); got != 1 {
				t.Errorf("synchronous=%s: %d rows", sync, got)
			}
			rig.Exact(t, r.Actor)
		}
		exec(t, db, "insert into t(b) values (2)")
		intact(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		r.Reopen(t, batch.Limits{})
		db = r.open(t, nil)
		if got := one[int](t, db, "select sum(b) from t"); got != 3 {
			t.Errorf("synchronous=%s: the sum is %d", sync, got)
		}
	}
}

// TestWALUpdate: DB.Update says that it can't.
func TestWALUpdate(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	logged(t, db)
	err := db.Update(t.Context(), func(*vfs.Tx) error { return errors.New("not reached") })
	if !errors.Is(err, vfs.ErrUnsupported) || !strings.Contains(err.Error(), "journal_mode=WAL") {
		t.Errorf("Update: %v", err)
	}
	if got := one[string](t, db, "PRAGMA journal_mode=DELETE"); got != "delete" {
		t.Fatal(got)
	}
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		_, err := tx.ExecContext(t.Context(), "create table t(a)")
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestWALWithoutSharedMemory: on a platform without shared memory WAL is refused, except to a
// connection that has the file for itself. A restored database in WAL mode is changed.
func TestWALWithoutSharedMemory(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v, open := mounted(t, r, "noshm")
	if err := vfs.WithoutSharedMemory(v, "a"); err != nil {
		t.Fatal(err)
	}
	c := open()
	err := c.Exec("PRAGMA journal_mode=WAL")
	if err == nil || !strings.Contains(err.Error(), "needs memory that connections share") {
		t.Errorf("PRAGMA journal_mode=WAL: %v", err)
	}
	do(t, c, "create table t(a); insert into t values (1)")
	src, err := sqlite3.Open("file:" + filepath.Join(t.TempDir(), "wal.db"))
	if err != nil {
		t.Fatal(err)
	}
	do(t, src, "PRAGMA journal_mode=WAL; create table t(a); insert into t values (7)")
	if err := errors.Join(src.Backup("main", "file:/a?vfs=noshm"), src.Close()); err != nil {
		t.Fatal(err)
	}
	do(t, c, "insert into t values (8)")
	scalar(t, c, "select sum(a) from t", "15")
	scalar(t, c, "PRAGMA journal_mode", "delete")
	do(t, c, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; insert into t values (9)")
	scalar(t, c, "PRAGMA journal_mode", "wal")
	if err := errors.Join(c.Close(), v.Unmount("a"), v.Unregister()); err != nil {
		t.Fatal(err)
	}
}

// TestWALTakenOver: a connection whose actor has another owner can't write, and can't
// read what it hasn't in its cache.
func TestWALTakenOver(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	logged(t, db)
	exec(t, db, "create table t(a); insert into t values (1)")
	rival := openRig(t, r.Engine, batch.Limits{})
	defer rival.Store.Close()
	defer rival.Actor.Close()
	if _, err := db.ExecContext(t.Context(), "insert into t values (2)"); err == nil || !errors.Is(db.Cause(), actorstore.ErrFenced) {
		t.Errorf("the old owner writes: %v, cause %v", err, db.Cause())
	}
	if err := db.Close(); err != nil {
		t.Logf("closing: %v", err)
	}
	mine, err := vfs.Open(t.Context(), rival.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if got := one[int](t, mine, "select sum(a) from t"); got != 1 {
		t.Errorf("the sum is %d", got)
	}
	intact(t, mine)
}

// TestWALSpill: a transaction larger than memory reaches the log in parts, and rolled
// back leaves nothing.
func TestWALSpill(t *testing.T) {
	for _, limits := range []batch.Limits{{}, oneBatch} {
		r := newRig(t, limits)
		db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5"}, TxMemory: 1 << 16})
		logged(t, db)
		exec(t, db, table)
		exec(t, db, fill)
		c := oneConn(t, db)
		for _, end := range []string{"rollback", "commit"} {
			exec(t, c, "begin; update t set b = randomblob(1500)")
			for i := range 3 {
				exec(t, c, fmt.Sprintf("update t set b = randomblob(%d)", 1400+i))
			}
			if got := one[int](t, db, "select count(*) from t where b = zeroblob(1500)"); got != 80 {
				t.Errorf("another connection sees a transaction under way: %d rows are left", got)
			}
			exec(t, c, end)
			intact(t, db)
			rig.Exact(t, r.Actor)
		}
		if got := one[int](t, db, "select count(*) from t where b = zeroblob(1500)"); got != 0 {
			t.Errorf("%d rows are left", got)
		}
	}
}

// TestWALNamed: a database under keys of the older form whose header asks for a log is
// rewritten when the log is opened, and shown as it is by a view.
func TestWALNamed(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	logged(t, db)
	for _, s := range olderSetup {
		exec(t, db, s)
	}
	content := contentOf(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rename(t, r.Actor, "main.db")
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	db = r.open(t, nil)
	exec(t, db, "insert into t(b) values ('new')")
	if left := namedLeft(t, r.Actor); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if got := one[int](t, db, "select count(*) from t"); got != 62 {
		t.Errorf("%d rows", got)
	}
	intact(t, db)
	rig.Exact(t, r.Actor)
	old, err := vfs.OpenView(t.Context(), view, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got := contentOf(t, old); got != content {
		t.Errorf("the view shows %.60s, want %.60s", got, content)
	}
}

// TestWALAllocs: reading what is in memory, and overwriting what the log has, allocate
// nothing in this package.
func TestWALAllocs(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v, open := mounted(t, r, "allocs")
	c := open()
	do(t, c, "PRAGMA journal_mode=WAL; create table t(a integer primary key, b); insert into t values (1, 0)")
	f, err := vfs.LogOf(v, "a")
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	if n := testkit.FewestAllocs(func() {
		if _, err := f.WriteAt(page, format.LogHeaderSize+format.FrameHeaderSize); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(page, format.LogHeaderSize+format.FrameHeaderSize); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if err := c.Close(); err != nil {
		t.Log(err) // the log was overwritten
	}
	if err := errors.Join(v.Unmount("a"), v.Unregister()); err != nil {
		t.Fatal(err)
	}
}
