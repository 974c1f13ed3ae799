package vfs_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"database/sql"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
)

func TestReopen(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a integer primary key, b text)")
	exec(t, db, "insert into t(b) values ('x'), ('y')")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r.Reopen(t, batch.Limits{})
	db = r.open(t, nil)
	if got := one[string](t, db, "select group_concat(b) from t"); got != "x,y" {
		t.Errorf("after reopening: %q", got)
	}
	intact(t, db)
}

// oneConn returns one connection of the pool, so that its cache stays warm.
func oneConn(t testing.TB, db *vfs.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestWarmCounts holds the bound: a warm one-row transaction makes one engine commit and no read,
// and a warm read transaction makes no read.
func TestWarmCounts(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b text)")
	for range 50 {
		exec(t, c, "insert into t(b) values ('row')")
	}
	for _, q := range []string{
		"insert into t(b) values ('one')",
		"update t set b = 'two' where a = 7",
		"delete from t where a = 9",
	} {
		before := r.Engine.Counts()
		exec(t, c, q)
		got := r.Engine.Counts()
		if n := got.Commits - before.Commits; n != 1 {
			t.Errorf("%s: %d engine commits, want 1", q, n)
		}
		if n := got.Gets - before.Gets + got.Scans - before.Scans; n != 0 {
			t.Errorf("%s: %d engine reads, want 0", q, n)
		}
	}
	before := r.Engine.Counts()
	for range 10 {
		one[int](t, c, "select count(*) from t where b like 'r%'")
	}
	got := r.Engine.Counts()
	if n := got.Gets - before.Gets + got.Scans - before.Scans + got.Commits - before.Commits; n != 0 {
		t.Errorf("10 warm read transactions: %d engine operations, want 0", n)
	}
}

// TestWarmAllocates bounds how often a warm one-row transaction allocates, with what database/sql and the driver do.
func TestWarmAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector's own memory is counted")
	}
	r := newRig(t, batch.Limits{})
	c := oneConn(t, r.open(t, nil))
	exec(t, c, "create table t(a integer primary key, b text)")
	stmt, err := c.PrepareContext(t.Context(), "insert into t(b) values ('row')")
	if err != nil {
		t.Fatal(err)
	}
	insert := func() {
		if _, err := stmt.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, insert); n > 11 {
		t.Errorf("a row allocates %v times", n)
	}
	if err := stmt.Close(); err != nil {
		t.Error(err)
	}
}

// TestFirstTransaction: SQLite opens a real journal for it, which never needs to
// be stored.
func TestFirstTransaction(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	before := r.Engine.Counts()
	exec(t, db, "create table t(a)")
	if n := r.Engine.Counts().Commits - before.Commits; n != 1 {
		t.Errorf("the first transaction took %d engine commits, want 1", n)
	}
	if s := db.Stats(); s.BufferedCommits != 1 || s.JournalCommits != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestPageSizes(t *testing.T) {
	for size := 512; size <= 65536; size *= 2 {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, nil)
			c := oneConn(t, db)
			exec(t, c, fmt.Sprintf("PRAGMA page_size=%d", size))
			exec(t, c, "create table t(a integer primary key, b blob)")
			for range 20 {
				exec(t, c, "insert into t(b) values (randomblob(5000))")
			}
			exec(t, c, "delete from t where a % 3 = 0")
			exec(t, c, "vacuum")
			if got := one[int](t, c, "PRAGMA page_size"); got != size {
				t.Errorf("page_size is %d", got)
			}
			intact(t, c)
			want := one[string](t, c, "select group_concat(hex(b)) from t")
			c.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
				t.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
			}
			r.Reopen(t, batch.Limits{})
			db = r.open(t, nil)
			intact(t, db)
			if got := one[string](t, db, "select group_concat(hex(b)) from t"); got != want {
				t.Error("the content differs after reopening")
			}
		})
	}
}

// TestTwoConnections: what one commits, the other sees, although go-sqlite3's
// atomic commit doesn't move the change counter.
func TestTwoConnections(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	a, b := oneConn(t, db), oneConn(t, db)
	exec(t, a, "create table t(a integer primary key, b)")
	exec(t, a, "insert into t values (1, 0)")
	one[int](t, b, "select b from t") // data_version moves from the first read on
	version := one[int](t, b, "PRAGMA data_version")
	for i := 1; i <= 100; i++ {
		exec(t, a, "update t set b = ?", i)
		if got := one[int](t, b, "select b from t"); got != i {
			t.Fatalf("the other connection reads %d after %d was written", got, i)
		}
		next := one[int](t, b, "PRAGMA data_version")
		if next == version {
			t.Fatalf("data_version stayed %d", version)
		}
		version = next
	}
	if s := db.Stats(); s.AtomicCommits < 100 {
		t.Errorf("only %d atomic commits: %+v", s.AtomicCommits, s)
	}
}

// TestReaderKeepsSnapshot: a read transaction sees the state of its start, and
// neither it nor the writer waits.
func TestReaderKeepsSnapshot(t *testing.T) {
	for _, spill := range []bool{false, true} {
		t.Run(fmt.Sprintf("spill=%v", spill), func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=10"}, TxMemory: vfs.LeastTxMemory})
			w := oneConn(t, db)
			exec(t, w, "create table t(a integer primary key, b blob)")
			exec(t, w, "insert into t select value, zeroblob(1000) from generate_series(1, 100)")
			read, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer read.Rollback()
			if got := one[int](t, read, "select count(*) from t"); got != 100 {
				t.Fatalf("%d rows", got)
			}
			rows := 100
			if spill {
				rows = 2000
			}
			exec(t, w, "insert into t(b) select zeroblob(1000) from generate_series(1, ?)", rows)
			exec(t, w, "update t set b = randomblob(1000)")
			exec(t, w, "delete from t where a <= 50")
			exec(t, w, "vacuum")
			if got := one[int](t, read, "select count(*) from t"); got != 100 {
				t.Errorf("the reader sees %d rows after the writer's commits, want 100", got)
			}
			if got := one[int](t, read, "select count(*) from t where b = zeroblob(1000)"); got != 100 {
				t.Errorf("the reader sees %d unchanged rows, want 100", got)
			}
			intact(t, read)
			if err := read.Rollback(); err != nil {
				t.Fatal(err)
			}
			if got := one[int](t, db, "select count(*) from t"); got != 50+rows {
				t.Errorf("a new reader sees %d rows, want %d", got, 50+rows)
			}
			if s := db.Stats(); spill && s.JournalCommits == 0 {
				t.Errorf("nothing spilled: %+v", s)
			}
		})
	}
}

// TestIdleHoldsNoSnapshot: an open but unused database keeps nothing alive in the engine.
func TestIdleHoldsNoSnapshot(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5"}})
	exec(t, db, "create table t(a integer primary key, b blob)")
	exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 100)")
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	read, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	one[int](t, read, "select sum(length(b)) from t")
	if !d.Look().Snapshot {
		t.Error("a reader has no snapshot")
	}
	if err := read.Rollback(); err != nil {
		t.Fatal(err)
	}
	if d.Look().Snapshot {
		t.Error("the snapshot outlives its last reader")
	}
}

func TestStaleUpgrade(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	a, b := oneConn(t, db), oneConn(t, db)
	exec(t, a, "create table t(a)")
	exec(t, b, "begin deferred")
	one[int](t, b, "select count(*) from t")
	exec(t, a, "insert into t values (1)")
	_, err := b.ExecContext(t.Context(), "insert into t values (2)")
	if !errors.Is(err, sqlite3.BUSY_SNAPSHOT) {
		t.Errorf("writing from an old state: %v, want BUSY_SNAPSHOT", err)
	}
	exec(t, b, "rollback")
	exec(t, b, "insert into t values (2)")
}

// TestFallback: with one small batch per commit, SQLite's journal takes over,
// and nothing of it stays.
func TestFallback(t *testing.T) {
	limits := batch.DefaultLimits()
	limits.AtomicBatches, limits.Entries = 1, 8
	r := newRig(t, limits)
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b blob)")
	exec(t, c, "insert into t select value, randomblob(3000) from generate_series(1, 60)")
	for range 3 {
		exec(t, c, "update t set b = randomblob(3000)")
	}
	exec(t, c, "begin")
	exec(t, c, "delete from t where a > 10")
	exec(t, c, "rollback")
	intact(t, c)
	if got := one[int](t, c, "select count(*) from t"); got != 60 {
		t.Errorf("%d rows, want 60", got)
	}
	if s := db.Stats(); s.Fallbacks < 3 || s.JournalCommits < 3 {
		t.Errorf("the journal was not used: %+v", s)
	}
	for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if words := actorstore.Describe(e.Key); strings.Contains(words, "journal") {
			t.Errorf("%s is left", words)
		}
	}
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
	}
}

// TestAppendFirst: a transaction that mostly appends needs no journal even if it
// is larger than one commit.
func TestAppendFirst(t *testing.T) {
	limits := batch.DefaultLimits()
	limits.AtomicBatches, limits.Entries = 1, 16
	r := newRig(t, limits)
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b blob)")
	exec(t, c, "insert into t values (1, zeroblob(100))")
	before := r.Engine.Counts()
	exec(t, c, "insert into t select value, randomblob(3000) from generate_series(2, 100)")
	if s := db.Stats(); s.JournalCommits != 0 || s.Fallbacks != 0 {
		t.Errorf("a journal was used: %+v", s)
	}
	if n := r.Engine.Counts().Commits - before.Commits; n < 2 || n > 12 {
		t.Errorf("about 100 pages in batches of 16 took %d commits", n)
	}
	intact(t, c)
}

func TestQuotaIsFull(t *testing.T) {
	limits := batch.DefaultLimits()
	limits.Storage = 200_000
	r := newRig(t, limits)
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b blob)")
	exec(t, c, "insert into t values (1, zeroblob(100000))")
	_, err := c.ExecContext(t.Context(), "insert into t values (2, zeroblob(200000))")
	if !errors.Is(err, sqlite3.FULL) {
		t.Fatalf("over the quota: %v, want SQLITE_FULL", err)
	}
	var quota *actorstore.QuotaError
	if !errors.As(db.Cause(), &quota) || quota.Limit != 200_000 {
		t.Errorf("the cause is %v", db.Cause())
	}
	if got := one[int](t, c, "select count(*) from t"); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
	exec(t, c, "insert into t values (3, 'small')")
	exec(t, c, "delete from t where a = 1")
	exec(t, c, "insert into t values (2, zeroblob(80000))")
	intact(t, c)
}

func TestModes(t *testing.T) {
	for _, mode := range []string{"delete", "truncate", "persist", "memory"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=10"}})
			c := oneConn(t, db)
			if got := one[string](t, c, "PRAGMA journal_mode="+mode); got != mode {
				t.Fatalf("journal_mode is %s", got)
			}
			exec(t, c, "create table t(a integer primary key, b blob)")
			for i := range 5 {
				exec(t, c, "insert into t(b) select randomblob(1000) from generate_series(1, 200)")
				exec(t, c, "begin")
				exec(t, c, "update t set b = randomblob(900)")
				if i%2 == 0 {
					exec(t, c, "rollback")
				} else {
					exec(t, c, "commit")
				}
			}
			intact(t, c)
			want := one[string](t, c, "select count(*) || '/' || sum(length(b)) from t")
			c.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			r.Reopen(t, batch.Limits{})
			db = r.open(t, nil)
			intact(t, db)
			if got := one[string](t, db, "select count(*) || '/' || sum(length(b)) from t"); got != want {
				t.Errorf("after reopening %s, want %s", got, want)
			}
		})
	}
}

func TestRefusedModes(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a)")
	if _, err := c.ExecContext(t.Context(), "PRAGMA journal_mode=OFF"); err == nil || !strings.Contains(err.Error(), "journal_mode=OFF") {
		t.Errorf("journal_mode=OFF: %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a integer primary key, n)")
	exec(t, db, "insert into t values (1, 0), (2, 0)")
	const writers, rounds = 4, 50
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				if _, err := db.ExecContext(t.Context(), "update t set n = n + 1"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range rounds {
				var low, high int
				err := db.QueryRowContext(t.Context(), "select min(n), max(n) from t").Scan(&low, &high)
				if err != nil || low != high {
					t.Errorf("a reader sees %d and %d, %v", low, high, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := one[int](t, db, "select n from t where a = 1"); got != writers*rounds {
		t.Errorf("%d updates are counted, want %d", got, writers*rounds)
	}
	intact(t, db)
}

func TestTemporaryFiles(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{TempMemory: 64 << 10, TempDir: t.TempDir(), Pragmas: []string{"cache_size=10", "temp_store=file"}})
	c := oneConn(t, db)
	exec(t, c, "create table t(a integer primary key, b blob)")
	exec(t, c, "insert into t(b) select randomblob(500) from generate_series(1, 3000)")
	exec(t, c, "create temp table u as select * from t order by b")
	exec(t, c, "create index i on t(b)")
	if got := one[int](t, c, "select count(*) from u"); got != 3000 {
		t.Errorf("%d rows in the temporary table", got)
	}
	intact(t, c)
	for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if words := actorstore.Describe(e.Key); !strings.HasPrefix(words, "sqlite/") || strings.Contains(words, "journal") {
			t.Errorf("%s is stored", words)
		}
	}
}

func TestPlainOpen(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v := vfs.New(nil)
	if err := v.Register("plain"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Unregister(); err != nil {
			t.Error(err)
		}
	}()
	if err := v.Mount(t.Context(), "lobby", r.Actor); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:/lobby?vfs=plain")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table t(a)")
	exec(t, db, "insert into t values (1)")
	if err := v.Unmount("lobby"); !errors.Is(err, vfs.ErrBusy) {
		t.Errorf("unmounting an open database: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite3.Open("file:/nobody?vfs=plain"); !errors.Is(err, sqlite3.CANTOPEN) || !errors.Is(vfs.Cause(err), vfs.ErrNotMounted) {
		t.Errorf("an unknown name: %v", err)
	}
	if err := v.Unmount("lobby"); err != nil {
		t.Fatal(err)
	}
}

func TestView(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a)")
	exec(t, db, "insert into t values (1)")
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	exec(t, db, "insert into t values (2)")
	read, err := vfs.OpenView(t.Context(), view, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if got := one[int](t, read, "select count(*) from t"); got != 1 {
		t.Errorf("the view shows %d rows, want 1", got)
	}
	if _, err := read.ExecContext(t.Context(), "insert into t values (3)"); !errors.Is(err, sqlite3.READONLY) {
		t.Errorf("writing to a view: %v", err)
	}
}

func TestNames(t *testing.T) {
	r := newRig(t, batch.Limits{})
	v := vfs.New(nil)
	for _, name := range []string{"", "a-journal", "a-wal", "a-shm", "/a", "a?b", strings.Repeat("x", 1001)} {
		if err := v.Mount(t.Context(), name, r.Actor); !errors.Is(err, vfs.ErrName) {
			t.Errorf("Mount(%.20q) = %v, want ErrName", name, err)
		}
	}
	if err := v.Mount(t.Context(), "ok", r.Actor); err != nil {
		t.Fatal(err)
	}
	if err := v.Mount(t.Context(), "ok", r.Actor); !errors.Is(err, vfs.ErrMounted) {
		t.Errorf("mounting twice: %v", err)
	}
	if err := v.Unmount("other"); !errors.Is(err, vfs.ErrNotMounted) {
		t.Errorf("unmounting nothing: %v", err)
	}
	if err := v.Unmount("ok"); err != nil {
		t.Error(err)
	}
}
