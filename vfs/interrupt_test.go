package vfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// A ticker ends a context from within a statement: with the n-th call of the SQL
// function tick, which returns its argument, or with the n-th commit hook.
type ticker struct {
	left   atomic.Int64
	cancel context.CancelFunc
}

func (k *ticker) tick() {
	if k.left.Add(-1) == 0 {
		k.cancel()
	}
}

// register makes the function and the hook of a connection.
func (k *ticker) register(c *sqlite3.Conn) error {
	c.CommitHook(func() bool {
		k.tick()
		return true
	})
	return c.CreateFunction("tick", 1, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
		k.tick()
		ctx.ResultValue(arg[0])
	})
}

// inside are statements that are interrupted between two rows.
var inside = map[string]string{
	"update":    "update t set b = tick(b) || 'x' where a < 500",
	"insert":    "insert into t(b) select tick(b) from t",
	"delete":    "begin; delete from t where tick(a) > 3; rollback",
	"index":     "create index i on t(tick(b))",
	"sort":      "insert into t(b) select b from t order by tick(b) || a",
	"returning": "insert into t(b) select tick(b) from t returning a",
	"script":    "begin; update t set b = tick(a); savepoint s; update t set b = tick(b); release s; commit",
	"trigger":   "insert into fires select tick(a) from t",
	"upsert":    "insert into t select a, tick(b) from t where true on conflict do update set b = tick(excluded.b) || 'y'",
	"select":    "select tick(b) from t",
	"as select": "create table u as select tick(a), b from t",
	"reindex":   "reindex; select tick(a) from t",
}

// TestInterruptInside ends the context of statements between two of their rows, and
// when they commit: they are carried out as a whole or not at all, and leave nothing.
func TestInterruptInside(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		for _, spill := range []int64{0, 1} {
			if testkit.Short() && (spill == 1) != (mode == "wal") {
				continue
			}
			for name, query := range inside {
				t.Run(mode+"/"+name, func(t *testing.T) {
					t.Parallel()
					interruptInside(t, mode, spill, query)
				})
			}
		}
	}
}

func interruptInside(t *testing.T, mode string, spill int64, query string) {
	var k ticker
	r := newRig(t, batch.Limits{})
	temp := t.TempDir()
	db := r.open(t, &vfs.Options{
		MaxConns: 2, TxMemory: spill, TempDir: temp, TempMemory: -1,
		Pragmas:    []string{"cache_size=10", "synchronous=full", "journal_mode=" + mode},
		Extensions: []func(*sqlite3.Conn) error{k.register},
	})
	exec(t, db, "create table log(n); create table t(a integer primary key, b); create table fires(x)")
	exec(t, db, "create trigger f after insert on fires begin update t set b = tick(b) where a = new.x; end")
	exec(t, db, "insert into t(b) select randomblob(1000) from generate_series(1, 400)")
	interrupted, conn := 0, oneConn(t, db)
	exec(t, db, "create index ordered on t(a)")
	for n := int64(1); n < 5000; n = n*2 + 1 {
		exec(t, conn, "drop index if exists i; drop table if exists u; delete from t where a > 400")
		before := contentOf(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		k.cancel = cancel
		k.left.Store(n)
		_, err := conn.ExecContext(ctx, query)
		over := k.left.Load() > 0
		k.left.Store(0)
		cancel()
		if err == nil {
			continue // it was over before n, or just when the context was
		}
		if over {
			t.Fatalf("at %d: %v", n, err)
		}
		interrupted++
		if !errors.Is(err, context.Canceled) || !errors.Is(err, sqlite3.INTERRUPT) {
			t.Errorf("at %d: %v", n, err)
		}
		if query[:5] == "begin" {
			if _, err := conn.ExecContext(t.Context(), "rollback"); err != nil {
				t.Logf("rollback: %v", err) // it was the commit that was interrupted
			}
		}
		if after := contentOf(t, db); after != before {
			t.Errorf("at %d: it was interrupted, and has done something", n)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if mode == "delete" {
			holdsNothingSoon(t, r, db)
		}
		intact(t, db)
		conn = oneConn(t, db)
	}
	if interrupted < 3 {
		t.Errorf("%d times interrupted", interrupted)
	}
	if err := errors.Join(conn.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("%d files are left: %v, %v", len(left), left, err)
	}
	if vfs.BeginsWrites(r.Actor) > 0 {
		t.Error("a connection is still known as the writer")
	}
}

// TestInterruptedBackup gives up a backup into the database, and one of it, after every
// number of steps.
func TestInterruptedBackup(t *testing.T) {
	r := newRig(t, batch.Limits{Storage: 4 << 20})
	db := r.open(t, &vfs.Options{MaxConns: 2, TxMemory: 1})
	exec(t, db, "create table log(n); create table t(a integer primary key, b)")
	exec(t, db, "insert into t(b) select randomblob(3000) from generate_series(1, 100)")
	before := contentOf(t, db)
	path := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "other.db")) + "?vfs=os"
	src, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	do(t, src, "create table s(a integer primary key, b); insert into s(b) select randomblob(3000) from generate_series(1, 300)")
	for steps := range 12 {
		b, err := src.BackupInit("main", db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		for range steps {
			if _, err := b.Step(25); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if contentOf(t, db) != before {
			t.Errorf("given up after %d steps, it has done something", steps)
		}
		holdsNothingSoon(t, r, db)
		conn := oneConn(t, db)
		if err := conn.Raw(func(c any) error {
			b, err := c.(sqlitedriver.Conn).Raw().BackupInit("main", "file::memory:")
			if err != nil {
				return err
			}
			for range steps {
				if _, err := b.Step(10); err != nil {
					return err
				}
			}
			return b.Close()
		}); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		holdsNothingSoon(t, r, db)
	}
	do(t, src, "insert into s(b) select randomblob(3000) from generate_series(1, 2000)")
	if err := src.Backup("main", db.DSN()); !errors.Is(err, sqlite3.FULL) || !errors.Is(db.Cause(), actorstore.ErrQuota) {
		t.Errorf("over the quota: %v, %v", err, db.Cause())
	}
	if contentOf(t, db) != before {
		t.Error("it has done something")
	}
	holdsNothingSoon(t, r, db)
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}
