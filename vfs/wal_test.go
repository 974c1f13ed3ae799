package vfs_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// logged turns the database of db to WAL mode.
func logged(t testing.TB, db queryer) {
	t.Helper()
	if got := one[string](t, db, "PRAGMA journal_mode=WAL"); got != "wal" {
		t.Fatalf("PRAGMA journal_mode=WAL: %s", got)
	}
}

// storedFiles names the files of the database that the store has, with their sizes.
func storedFiles(t testing.TB, a *actorstore.Actor) map[actorstore.FileTag]int64 {
	t.Helper()
	files := map[actorstore.FileTag]int64{}
	for tag := actorstore.FileMain; tag <= actorstore.FileSHM; tag++ {
		record, err := a.Get(t.Context(), layout.AppendFileMeta(nil, tag), nil)
		if errors.Is(err, actorstore.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[tag], err = chunked.ParseMeta(record); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestWAL goes into WAL mode and back, on several ways, and finds everything again.
func TestWAL(t *testing.T) {
	for _, pragmas := range []string{
		"", "synchronous=NORMAL", "synchronous=OFF", "locking_mode=EXCLUSIVE",
		"page_size=512", "page_size=65536", "cache_size=5", "wal_autocheckpoint=3", "journal_size_limit=8192",
		"synchronous=OFF cache_size=5 wal_autocheckpoint=1",
	} {
		t.Run(pragmas, func(t *testing.T) {
			dir := t.TempDir()
			opts := &vfs.Options{Pragmas: strings.Fields(pragmas), TempDir: dir, MaxConns: 1}
			r := newRig(t, batch.Limits{})
			db, err := vfs.Open(t.Context(), r.Actor, opts)
			if err != nil {
				t.Fatal(err)
			}
			logged(t, db)
			exec(t, db, "create table t(a integer primary key, b)")
			for i := range 30 {
				exec(t, db, "insert into t(b) values (randomblob(3000))")
				exec(t, db, "update t set b = zeroblob(?) where a = ?", i*100, i)
				if i%10 == 5 {
					exec(t, db, "begin; delete from t; insert into t(b) select randomblob(2000) from generate_series(1, 100); rollback")
				}
			}
			const sum = "select count(*) || ' ' || sum(length(b)) from t"
			want := one[string](t, db, sum)
			rig.Exact(t, r.Actor)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("closing leaves %v, %v", left, err)
			}
			if files := storedFiles(t, r.Actor); len(files) != 1 {
				t.Errorf("closing leaves the files %v", files)
			}
			r.Reopen(t, batch.Limits{})
			db = r.open(t, opts)
			if got := one[string](t, db, "PRAGMA journal_mode"); got != "wal" {
				t.Errorf("opened again the mode is %s", got)
			}
			if got := one[string](t, db, sum); got != want {
				t.Errorf("opened again it holds %s, want %s", got, want)
			}
			intact(t, db)
			exec(t, db, "insert into t(b) values (1)")
			if got := one[string](t, db, "PRAGMA journal_mode=DELETE"); got != "delete" {
				t.Fatalf("PRAGMA journal_mode=DELETE: %s", got)
			}
			exec(t, db, "delete from t where b = 1")
			if got := one[string](t, db, sum); got != want {
				t.Errorf("in mode DELETE it holds %s, want %s", got, want)
			}
			intact(t, db)
			rig.Exact(t, r.Actor)
			sound(t, r, "at the end")
			if files := storedFiles(t, r.Actor); files[actorstore.FileWAL] != 0 {
				t.Errorf("the log is left: %v", files)
			}
		})
	}
}

// TestWALReaders: a reader sees the state of its start, while a writer commits and a
// checkpoint runs, and a new one the newest.
func TestWALReaders(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=2", "wal_autocheckpoint=0"}})
	w := oneConn(t, db)
	logged(t, w)
	exec(t, w, "create table t(a integer primary key, b)")
	exec(t, w, "insert into t(b) select zeroblob(2000) from generate_series(1, 50)")
	const sum = "select sum(a) from t"
	first := one[int](t, w, sum)
	var readers []*readTx
	for i := range 6 {
		readers = append(readers, beginRead(t, db, first))
		exec(t, w, "begin; update t set a = a + 1000")
		for _, r := range readers {
			r.check(t, "while a transaction is under way")
		}
		exec(t, w, "commit")
		first = one[int](t, w, sum)
		mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i%4]
		for _, r := range readers {
			r.check(t, "before a checkpoint")
		}
		exec(t, w, "PRAGMA busy_timeout=1")
		exec(t, w, "PRAGMA wal_checkpoint("+mode+")")
		for _, r := range readers {
			r.check(t, "after a checkpoint "+mode)
		}
		if i == 3 {
			for _, r := range readers {
				r.end(t)
			}
			readers = nil
			exec(t, w, "PRAGMA wal_checkpoint(TRUNCATE)")
			if n := storedFiles(t, r.Actor)[actorstore.FileWAL]; n != 0 {
				t.Errorf("after TRUNCATE the log has %d bytes", n)
			}
		}
		rig.Exact(t, r.Actor)
	}
	for _, r := range readers {
		r.end(t)
	}
	intact(t, db)
}

// A readTx is a transaction that reads.
type readTx struct {
	conn interface {
		execer
		queryer
	}
	want int
}

func beginRead(t testing.TB, db *vfs.DB, want int) *readTx {
	t.Helper()
	r := &readTx{oneConn(t, db), want}
	exec(t, r.conn, "begin")
	r.check(t, "at its start")
	return r
}

func (r *readTx) check(t testing.TB, when string) {
	t.Helper()
	if got := one[int](t, r.conn, "select sum(a) from t"); got != r.want {
		t.Errorf("%s a reader sees %d, want %d", when, got, r.want)
	}
}

func (r *readTx) end(t testing.TB) {
	t.Helper()
	r.check(t, "at its end")
	exec(t, r.conn, "commit")
}

// TestWALConcurrent: several connections write and read, and checkpoints run.
func TestWALConcurrent(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL"} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: []string{"synchronous=" + sync, "cache_size=5", "wal_autocheckpoint=20"}})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, n, pad)")
		exec(t, db, "insert into t select value, 0, zeroblob(3000) from generate_series(1, 30)")
		concurrently(t, db, 4, 40)
		if got := one[int](t, db, "select sum(n) from t"); got != 2*4*40 {
			t.Errorf("the sum is %d, want %d", got, 2*4*40)
		}
		intact(t, db)
		rig.Exact(t, r.Actor)
		if s := db.Stats(); s.LogCommits < 160 || s.Checkpoints < 2 {
			t.Errorf("%+v", s)
		}
	}
}

// concurrently runs several connections that add one to two rows, and look at the sum.
func concurrently(t *testing.T, db *vfs.DB, writers, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				if err := addTwo(t.Context(), db, w+i); err != nil {
					t.Error(err)
					return
				}
				var odd int
				if err := db.QueryRowContext(t.Context(), "select sum(n) % 2 from t").Scan(&odd); err != nil || odd != 0 {
					t.Errorf("half a transaction is seen: %d, %v", odd, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func addTwo(ctx context.Context, db *vfs.DB, i int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, a := range []int{i%30 + 1, (i+7)%30 + 1} {
		if _, err := tx.ExecContext(ctx, "update t set n = n + 1 where a = ?", a); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// TestWALSwitch: a reader with a snapshot goes on while another connection switches to WAL mode,
// writes and checkpoints. That connection can switch back only when it is alone.
func TestWALSwitch(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=2", "busy_timeout=1"}})
	w := oneConn(t, db)
	exec(t, w, "create table t(a integer primary key, b)")
	exec(t, w, "insert into t(b) select zeroblob(2000) from generate_series(1, 50)")
	first := one[int](t, w, "select sum(a) from t")
	old := beginRead(t, db, first)
	logged(t, w)
	exec(t, w, "update t set a = a + 1000")
	exec(t, w, "PRAGMA wal_checkpoint(TRUNCATE)")
	old.check(t, "with the database in WAL mode")
	second := one[int](t, w, "select sum(a) from t")
	recent := beginRead(t, db, second)
	exec(t, w, "update t set a = a + 1000")
	for _, m := range []string{"old", "recent"} {
		if _, err := w.ExecContext(t.Context(), "PRAGMA journal_mode=DELETE"); !errors.Is(err, sqlite3.BUSY) {
			t.Errorf("leaving WAL mode beside the %s reader: %v", m, err)
		}
		if m == "old" {
			old.end(t)
			old.want = second + 50*1000
			old.check(t, "the reader of before, in a new transaction,")
		}
	}
	recent.end(t)
	third := one[int](t, w, "select sum(a) from t")
	if third != second+50*1000 {
		t.Errorf("the sum is %d", third)
	}
	if err := db.Close(); !errors.Is(err, vfs.ErrBusy) { // the connections are given back below
		t.Errorf("closing: %v", err)
	}
}

// TestWALLeaves: a connection that was in WAL mode, and one that others have written
// behind, see everything when the mode is DELETE again.
func TestWALLeaves(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v, open := mounted(t, r, "leaves")
	a, b := open(), open()
	do(t, a, "create table t(a integer primary key, b); insert into t values (1, 0)")
	scalar(t, b, "select b from t", "0")
	do(t, a, "PRAGMA journal_mode=WAL; update t set b = 1")
	scalar(t, b, "select b from t", "1")
	do(t, b, "update t set b = 2")
	scalar(t, a, "select b from t", "2")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	do(t, b, "PRAGMA journal_mode=TRUNCATE")
	scalar(t, b, "select b from t", "2")
	c := open()
	do(t, c, "update t set b = 3")
	scalar(t, b, "select b from t", "3")
	do(t, b, "PRAGMA journal_mode=WAL; update t set b = 4")
	scalar(t, c, "select b from t", "4")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	do(t, c, "PRAGMA journal_mode=DELETE; update t set b = 5; vacuum")
	scalar(t, c, "select b || (select * from pragma_integrity_check) from t", "5ok")
	if err := errors.Join(c.Close(), v.Unmount("a"), v.Unregister()); err != nil {
		t.Fatal(err)
	}
}

// mounted mounts the rig's actor in a VFS of this name, and returns what opens it.
func mounted(t *testing.T, r *fixture, name string) (*vfs.VFS, func() *sqlite3.Conn) {
	t.Helper()
	v := vfs.New(&vfs.Options{TempDir: t.TempDir()})
	if err := errors.Join(v.Register(name), v.Mount(t.Context(), "a", r.Actor)); err != nil {
		t.Fatal(err)
	}
	return v, func() *sqlite3.Conn {
		c, err := sqlite3.Open("file:/a?vfs=" + name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func do(t testing.TB, c *sqlite3.Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scalar(t testing.TB, c *sqlite3.Conn, sql, want string) {
	t.Helper()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	if !s.Step() || s.ColumnText(0) != want {
		t.Errorf("%s: %q, %v, want %q", sql, s.ColumnText(0), s.Err(), want)
	}
}

// TestWALExclusiveLock: a connection that has the file for itself in WAL mode is alone.
func TestWALExclusiveLock(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v, open := mounted(t, r, "alone")
	a, b := open(), open()
	do(t, b, "PRAGMA busy_timeout=1")
	do(t, a, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; create table t(a); insert into t values (1)")
	if err := b.Exec("select * from t"); !errors.Is(err, sqlite3.BUSY) {
		t.Errorf("reading beside it: %v", err)
	}
	do(t, a, "insert into t values (2)")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	scalar(t, b, "select sum(a) from t", "3")
	c := open()
	do(t, c, "PRAGMA busy_timeout=1; PRAGMA locking_mode=EXCLUSIVE")
	if err := c.Exec("select * from t"); !errors.Is(err, sqlite3.BUSY) {
		t.Errorf("taking the file for itself beside a reader: %v", err)
	}
	scalar(t, b, "select sum(a) from t", "3")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	scalar(t, c, "select sum(a) from t", "3")
	if err := errors.Join(c.Close(), v.Unmount("a"), v.Unregister()); err != nil {
		t.Fatal(err)
	}
}

// TestWALView: a view of a database in WAL mode shows what is in its log, as of the
// view's moment, to several connections.
func TestWALView(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	logged(t, db)
	exec(t, db, "create table t(a); insert into t values (1)")
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	exec(t, db, "insert into t values (2)")
	exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	dir := t.TempDir()
	old, err := vfs.OpenView(t.Context(), view, &vfs.Options{TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	a, b := oneConn(t, old), oneConn(t, old)
	for _, c := range []queryer{a, b, a} {
		if got := one[int](t, c, "select sum(a) from t"); got != 1 {
			t.Errorf("the view's sum is %d", got)
		}
		intact(t, c)
	}
	if _, err := a.ExecContext(t.Context(), "insert into t values (3)"); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("writing to a view: %v", err)
	}
	if err := errors.Join(a.Close(), b.Close(), old.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the view leaves %v, %v", left, err)
	}
	if got := one[int](t, db, "select sum(a) from t"); got != 3 {
		t.Errorf("the sum is %d", got)
	}
}
