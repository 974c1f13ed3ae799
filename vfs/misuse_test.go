package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// TestWALExclusive: in locking_mode=EXCLUSIVE SQLite turns to WAL without shared memory,
// and the next connection finds everything with it.
func TestWALExclusive(t *testing.T) {
	for _, attached := range []bool{false, true} {
		r := newRig(t, batch.Limits{})
		v := vfs.New(nil)
		if err := v.Register("wal"); err != nil {
			t.Fatal(err)
		}
		if err := v.Mount(t.Context(), "a", r.Actor); err != nil {
			t.Fatal(err)
		}
		main, attach := "file:/a?vfs=wal", "select 1"
		if attached { // then an unqualified PRAGMA is not shown to the VFS
			main, attach = "file::memory:", "attach 'file:/a?vfs=wal' as x"
		}
		c, err := sqlite3.Open(main)
		if err != nil {
			t.Fatal(err)
		}
		table := "t"
		if attached {
			table = "x.t"
		}
		for _, q := range []string{
			attach, "create table " + table + "(a)", "PRAGMA locking_mode=EXCLUSIVE",
			"PRAGMA journal_mode=WAL", "insert into " + table + " values (1)",
		} {
			if err := c.Exec(q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
		if err := errors.Join(c.Close(), v.Unregister(), v.Unmount("a")); err != nil {
			t.Fatal(err)
		}
		r.Reopen(t, batch.Limits{})
		db := r.open(t, nil)
		intact(t, db)
		if got := one[int](t, db, "select a from t"); got != 1 {
			t.Errorf("the row is %d", got)
		}
	}
}

// TestRestoreWAL: a backup of a database in WAL mode is one in WAL mode.
func TestRestoreWAL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wal.db")
	src, err := sqlite3.Open("file:" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Exec("PRAGMA journal_mode=WAL; create table t(a); insert into t values (7)"); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	if err := errors.Join(src.Backup("main", db.DSN()), src.Close()); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "insert into t values (8)")
	if got := one[int](t, db, "select sum(a) from t"); got != 15 {
		t.Errorf("the sum is %d", got)
	}
	if got := one[string](t, db, "PRAGMA journal_mode"); got != "wal" {
		t.Errorf("the mode is %s", got)
	}
	intact(t, db)
}

// TestTwoActors: a transaction can't span two actors, in no journal mode.
func TestTwoActors(t *testing.T) {
	for _, mode := range []string{"journal_mode=delete", "journal_mode=memory", "journal_mode=persist", "main.journal_mode=wal"} {
		r := newRig(t, batch.Limits{})
		other, err := r.Store.Named(t.Context(), "other", nil)
		if err != nil {
			t.Fatal(err)
		}
		v := vfs.New(nil)
		if err := errors.Join(v.Register("two"), v.Mount(t.Context(), "a", r.Actor), v.Mount(t.Context(), "b", other)); err != nil {
			t.Fatal(err)
		}
		b, err := sqlite3.Open("file:/b?vfs=two")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Exec("create table u(a); insert into u values (5)"), b.Close()); err != nil {
			t.Fatal(err)
		}
		c, err := sqlite3.Open("file:/a?vfs=two")
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{
			"attach 'file:/b?vfs=two' as b", "PRAGMA " + mode,
			"create table t(a)", "begin", "insert into t select a from b.u",
		} {
			if err := c.Exec(q); err != nil {
				t.Fatalf("%s: %s: %v", mode, q, err)
			}
		}
		if err := c.Exec("insert into b.u values (6)"); !errors.Is(err, sqlite3.READONLY) {
			t.Errorf("%s: writing the second actor: %v, want READONLY", mode, err)
		}
		if err := errors.Join(c.Exec("commit"), c.Close(), v.Unregister(), v.Unmount("a"), v.Unmount("b"), other.Close()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestJournalOff: no beginning of the word is let through, and where the PRAGMA
// can't be seen, since it names no attached database but changes all, a rollback
// still finds everything as it was.
func TestJournalOff(t *testing.T) {
	for _, mode := range []string{"o", "of", "off", "OFF"} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, nil)
		c := oneConn(t, db)
		exec(t, c, "create table t(a)")
		if _, err := c.ExecContext(t.Context(), "PRAGMA journal_mode="+mode); err == nil {
			t.Errorf("journal_mode=%s was taken", mode)
		}
	}
	r := newRig(t, batch.Limits{})
	v := vfs.New(nil)
	if err := v.Register("attached"); err != nil {
		t.Fatal(err)
	}
	if err := v.Mount(t.Context(), "a", r.Actor); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open("file::memory:")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"attach 'file:/a?vfs=attached' as x", "PRAGMA x.cache_size=10",
		"create table x.t(a integer primary key, b)", "create index x.i on t(b)",
		"insert into x.t(b) select randomblob(500) from generate_series(1, 2000)",
		"PRAGMA journal_mode=off",
		"begin", "update x.t set b = randomblob(400)", "rollback",
	} {
		if err := c.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if err := errors.Join(c.Close(), v.Unregister(), v.Unmount("a")); err != nil {
		t.Fatal(err)
	}
	db := r.open(t, nil)
	intact(t, db)
	if got := one[int](t, db, "select sum(length(b)) from t"); got != 2000*500 {
		t.Errorf("after the rollback the table holds %d bytes", got)
	}
}

// TestMemoryJournalFull: a full quota after a spill in journal_mode=MEMORY, when
// SQLite has thrown its undo away.
func TestMemoryJournalFull(t *testing.T) {
	t.Parallel()
	limits := batch.DefaultLimits()
	limits.Storage = 2_000_000
	r := newRig(t, limits)
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=10", "journal_mode=memory"}})
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b blob)")
	exec(t, c, "create index i on t(b)")
	exec(t, c, "insert into t(b) select randomblob(500) from generate_series(1, 500)")
	const digest = "select count(*) || ' ' || sum(length(b)) || ' ' || max(b) from t"
	want, full := one[string](t, c, digest), 0
	for n := 500; n < 2500; n += 100 {
		exec(t, c, "begin")
		_, err := c.ExecContext(t.Context(), "update t set b = randomblob(500)")
		if err == nil {
			_, err = c.ExecContext(t.Context(), "insert into t(b) select randomblob(500) from generate_series(1, ?)", n)
		}
		if err == nil {
			_, err = c.ExecContext(t.Context(), "commit")
		}
		if err == nil {
			exec(t, c, "delete from t where a > 500")
			want = one[string](t, c, digest)
			continue
		}
		if !errors.Is(err, sqlite3.FULL) {
			t.Fatalf("%d rows: %v", n, err)
		}
		full++
		if _, err := c.ExecContext(t.Context(), "rollback"); err != nil {
			t.Logf("rollback: %v", err) // SQLite may have done it
		}
		intact(t, c)
		if got := one[string](t, c, digest); got != want {
			t.Fatalf("%d rows: the failed transaction left its mark", n)
		}
	}
	if full == 0 {
		t.Error("the quota was never full")
	}
}

// TestReservedBytes: the counter is overlaid or SQLite's own, and the other
// connection notices every change also where that changes.
func TestReservedBytes(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	a, b := oneConn(t, db), oneConn(t, db)
	exec(t, a, "create table t(a integer primary key, b)")
	exec(t, a, "insert into t values (1, 0)")
	n := 0
	check := func(step string) {
		t.Helper()
		n++
		exec(t, a, "update t set b = ?", n)
		if got := one[int](t, b, "select b from t"); got != n {
			t.Errorf("%s: the other connection reads %d, want %d", step, got, n)
		}
		intact(t, b)
	}
	for round := range 6 {
		for _, reserve := range []int{8, 0} {
			for range round {
				check(fmt.Sprint("round ", round, " before reserving ", reserve))
			}
			if err := a.Raw(func(c any) error {
				_, err := c.(driver.Conn).Raw().FileControl("main", sqlite3.FCNTL_RESERVE_BYTES, reserve)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			exec(t, a, "vacuum")
			check(fmt.Sprint("round ", round, " after reserving ", reserve))
		}
	}
}

// TestReservedThenRestored: the file stops having reserved bytes by being replaced,
// just when the numbers would meet.
func TestReservedThenRestored(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	a, b := oneConn(t, db), oneConn(t, db)
	exec(t, a, "create table t(a integer primary key, b)")
	exec(t, a, "insert into t values (1, 0)")
	if err := a.Raw(func(c any) error {
		_, err := c.(driver.Conn).Raw().FileControl("main", sqlite3.FCNTL_RESERVE_BYTES, 8)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	exec(t, a, "vacuum")
	one[int](t, b, "select b from t")
	exec(t, b, "update t set b = 1") // b knows the number that it wrote, k
	exec(t, a, "update t set b = 2") // k+1
	one[int](t, b, "select b from t")
	exec(t, a, "update t set b = 3") // k+2, which b doesn't look at
	src, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		src.Exec("create table t(a integer primary key, b); insert into t values (1, 4)"),
		src.Backup("main", db.DSN()), src.Close(),
	); err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, b, "select b from t"); got != 4 {
		t.Errorf("the other connection reads %d, want 4", got)
	}
	intact(t, b)
}

// TestTwoPools: two actors in one connection, each from a pool of its own.
func TestTwoPools(t *testing.T) {
	r := newRig(t, batch.Limits{})
	other, err := r.Store.Named(t.Context(), "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := vfs.Open(t.Context(), other, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, second, "create table t(a)")
	c := oneConn(t, r.open(t, nil))
	exec(t, c, "attach '"+second.DSN()+"' as x")
	if _, err := c.ExecContext(t.Context(), "insert into x.t values (1)"); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("writing the second actor: %v, want READONLY", err)
	}
	if err := second.Close(); !errors.Is(err, vfs.ErrBusy) {
		t.Errorf("closing an attached database: %v, want ErrBusy", err)
	}
	exec(t, c, "detach x")
	if err := errors.Join(second.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// TestMemoryJournalTooLarge: a transaction that no atomic commit holds is stored in
// parts in this mode, and rolled back from memory before that.
func TestMemoryJournalTooLarge(t *testing.T) {
	for _, synchronous := range []string{"full", "off"} {
		r := newRig(t, oneBatch)
		db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=10", "synchronous=" + synchronous}})
		c := oneConn(t, db)
		exec(t, c, table)
		exec(t, c, fill)
		exec(t, c, "PRAGMA journal_mode=memory")
		before := contentOf(t, c)
		exec(t, c, "begin")
		exec(t, c, "update t set b = randomblob(1600)")
		exec(t, c, "rollback")
		for _, q := range []queryer{c, db} {
			intact(t, q)
			if got := contentOf(t, q); got != before {
				t.Errorf("synchronous=%s: the rollback left a mark", synchronous)
			}
		}
		exec(t, c, "update t set b = randomblob(1600)")
		for _, q := range []queryer{c, db} {
			intact(t, q)
			if got := one[int](t, q, "select sum(length(b)) from t"); got != 80*1600 {
				t.Errorf("synchronous=%s: %d bytes", synchronous, got)
			}
		}
	}
}

// TestCloseInUse: a connection in use keeps its database.
func TestCloseInUse(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a)")
	c := oneConn(t, db)
	exec(t, c, "begin")
	exec(t, c, "insert into t values (1)")
	if err := db.Close(); !errors.Is(err, vfs.ErrBusy) {
		t.Errorf("closing under a transaction: %v, want ErrBusy", err)
	}
	exec(t, c, "commit")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if got := one[int](t, r.open(t, nil), "select count(*) from t"); got != 1 {
		t.Errorf("%d rows", got)
	}
}

// TestNullIO: SQLITE_FCNTL_NULL_IO closes the file under SQLite, which closes it
// again.
func TestNullIO(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a)")
	if err := c.Raw(func(c any) error {
		_, err := c.(driver.Conn).Raw().FileControl("main", sqlite3.FCNTL_NULL_IO)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestTruncateAndAppend: a truncation and more than one commit of new chunks.
func TestTruncateAndAppend(t *testing.T) {
	limits := batch.DefaultLimits()
	limits.AtomicBatches, limits.Entries = 1, 8
	r := newRig(t, limits)
	h := newRigDatabase(t, r).Open(t.Context(), false)
	page := bytes.Repeat([]byte{1}, chunked.Size)
	must := func(_ int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(0, errors.Join(h.Lock(sqlitevfs.LOCK_SHARED), h.Lock(sqlitevfs.LOCK_RESERVED)))
	for i := range int64(4) {
		must(h.WriteAt(page, i*chunked.Size))
	}
	must(0, errors.Join(h.Sync(0), h.BeginAtomicWrite(), h.Truncate(2*chunked.Size)))
	for i := int64(4); i < 30; i++ {
		must(h.WriteAt(page, i*chunked.Size))
	}
	must(0, h.CommitAtomicWrite())
	got := make([]byte, chunked.Size)
	for i := range int64(30) {
		must(h.ReadAt(got, i*chunked.Size))
		if want := i < 2 || i >= 4; (got[0] == 1) != want {
			t.Errorf("page %d reads %d", i, got[0])
		}
	}
	must(0, h.Close())
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
	}
}
