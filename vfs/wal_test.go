package vfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
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
		record, err := a.Get(t.Context(), actorstore.AppendFileMeta(nil, tag), nil)
		if errors.Is(err, actorstore.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[tag], err = parseMeta(record); err != nil {
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
			opts := &Options{Pragmas: strings.Fields(pragmas), TempDir: dir, MaxConns: 1}
			r := newRig(t, batch.Limits{})
			db, err := Open(t.Context(), r.actor, opts)
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
			exact(t, r.actor)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("closing leaves %v, %v", left, err)
			}
			if files := storedFiles(t, r.actor); len(files) != 1 {
				t.Errorf("closing leaves the files %v", files)
			}
			r.reopen(t, batch.Limits{})
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
			exact(t, r.actor)
			sound(t, r, "at the end")
			if files := storedFiles(t, r.actor); files[actorstore.FileWAL] != 0 {
				t.Errorf("the log is left: %v", files)
			}
		})
	}
}

// TestWALReaders: a reader sees the state of its start, while a writer commits and a
// checkpoint runs, and a new one the newest.
func TestWALReaders(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &Options{Pragmas: []string{"cache_size=2", "wal_autocheckpoint=0"}})
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
			if n := storedFiles(t, r.actor)[actorstore.FileWAL]; n != 0 {
				t.Errorf("after TRUNCATE the log has %d bytes", n)
			}
		}
		exact(t, r.actor)
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

func beginRead(t testing.TB, db *DB, want int) *readTx {
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
		db := r.open(t, &Options{Pragmas: []string{"synchronous=" + sync, "cache_size=5", "wal_autocheckpoint=20"}})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, n, pad)")
		exec(t, db, "insert into t select value, 0, zeroblob(3000) from generate_series(1, 30)")
		concurrently(t, db, 4, 40)
		if got := one[int](t, db, "select sum(n) from t"); got != 2*4*40 {
			t.Errorf("the sum is %d, want %d", got, 2*4*40)
		}
		intact(t, db)
		exact(t, r.actor)
		if s := db.Stats(); s.LogCommits < 160 || s.Checkpoints < 2 {
			t.Errorf("%+v", s)
		}
	}
}

// concurrently has some connections add one to two rows, and look at the sum.
func concurrently(t *testing.T, db *DB, writers, rounds int) {
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

func addTwo(ctx context.Context, db *DB, i int) error {
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

// TestWALSwitch: who reads with a snapshot goes on while another connection goes to WAL
// mode, writes and checkpoints; back it goes only when it is alone.
func TestWALSwitch(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &Options{Pragmas: []string{"cache_size=2", "busy_timeout=1"}})
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
	if err := db.Close(); !errors.Is(err, ErrBusy) { // the connections are given back below
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
func mounted(t *testing.T, r *rig, name string) (*VFS, func() *sqlite3.Conn) {
	t.Helper()
	v := New(&Options{TempDir: t.TempDir()})
	if err := errors.Join(v.Register(name), v.Mount(t.Context(), "a", r.actor)); err != nil {
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

// TestWALExclusiveLock: who has the file for himself in WAL mode is alone.
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
	view, err := r.store.View(t.Context(), r.actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	exec(t, db, "insert into t values (2)")
	exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	dir := t.TempDir()
	old, err := OpenView(t.Context(), view, &Options{TempDir: dir})
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

// TestWALCounts: a small transaction is one engine commit, at every level.
func TestWALCounts(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL", "OFF"} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &Options{Pragmas: []string{"synchronous=" + sync}, MaxConns: 1})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, b)")
		exec(t, db, "insert into t values (1, 0)")
		before := r.engine.Counts()
		for i := range 20 {
			exec(t, db, "update t set b = ?", i+1)
		}
		after := r.engine.Counts()
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
		db := r.open(t, &Options{Pragmas: []string{"synchronous=" + sync}})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, b)")
		exec(t, db, "insert into t(b) values (1)")
		for range 3 {
			_, err := db.ExecContext(t.Context(), "insert into t(b) select randomblob(3000) from generate_series(1, 80)")
			if !errors.Is(err, sqlite3.FULL) || !errors.Is(Cause(err), actorstore.ErrQuota) && !errors.Is(db.Cause(), actorstore.ErrQuota) {
				t.Fatalf("synchronous=%s: %v, cause %v", sync, err, db.Cause())
			}
			if got := one[int](t, db, "select count(*) from t"); got != 1 {
				t.Errorf("synchronous=%s: %d rows", sync, got)
			}
			exact(t, r.actor)
		}
		exec(t, db, "insert into t(b) values (2)")
		intact(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		r.reopen(t, batch.Limits{})
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
	err := db.Update(t.Context(), func(*Tx) error { return errors.New("not reached") })
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "journal_mode=WAL") {
		t.Errorf("Update: %v", err)
	}
	if got := one[string](t, db, "PRAGMA journal_mode=DELETE"); got != "delete" {
		t.Fatal(got)
	}
	if err := db.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), "create table t(a)")
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestWALWithoutSharedMemory: where the platform has none, WAL is refused, but for who
// has the file for himself; a restored database in WAL mode is changed.
func TestWALWithoutSharedMemory(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v, open := mounted(t, r, "noshm")
	db, err := v.find("a")
	if err != nil {
		t.Fatal(err)
	}
	db.shm.offered = false
	c := open()
	err = c.Exec("PRAGMA journal_mode=WAL")
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
	db, err := Open(t.Context(), r.actor, &Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	logged(t, db)
	exec(t, db, "create table t(a); insert into t values (1)")
	rival := openRig(t, r.engine, batch.Limits{})
	defer rival.store.Close()
	defer rival.actor.Close()
	if _, err := db.ExecContext(t.Context(), "insert into t values (2)"); err == nil || !errors.Is(db.Cause(), actorstore.ErrFenced) {
		t.Errorf("the old owner writes: %v, cause %v", err, db.Cause())
	}
	if err := db.Close(); err != nil {
		t.Logf("closing: %v", err)
	}
	mine, err := Open(t.Context(), rival.actor, nil)
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
		db := r.open(t, &Options{Pragmas: []string{"cache_size=5"}, TxMemory: 1 << 16})
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
			exact(t, r.actor)
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
	db, err := Open(t.Context(), r.actor, nil)
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
	rename(t, r.actor, "main.db")
	view, err := r.store.View(t.Context(), r.actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	db = r.open(t, nil)
	exec(t, db, "insert into t(b) values ('new')")
	if left := namedLeft(t, r.actor); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if got := one[int](t, db, "select count(*) from t"); got != 62 {
		t.Errorf("%d rows", got)
	}
	intact(t, db)
	exact(t, r.actor)
	old, err := OpenView(t.Context(), view, nil)
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
	db, err := v.find("a")
	if err != nil {
		t.Fatal(err)
	}
	h := &handle{db: db, ctx: context.Background(), logged: true, sync: syncFull}
	f := &walFile{h: h}
	page := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := f.WriteAt(page, logHeader+frameHeader); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(page, logHeader+frameHeader); err != nil {
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
