package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// onBoth runs test on an engine that only this process can have open, and on one
// that others might. There hosts have leases, which a machine that stalls would let run
// out; so the time stands still while anybody can run.
func onBoth(t *testing.T, test func(t *testing.T, eng kv.Engine)) {
	t.Run("one process", func(t *testing.T) { test(t, memkv.New()) })
	t.Run("many processes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, engines.Shared(memkv.New())) })
	})
}

// ownerRig is openRig for a store that is closed when the test ends.
func ownerRig(t *testing.T, engine kv.Engine, limits batch.Limits) *fixture {
	t.Helper()
	r := openRig(t, engine, limits)
	t.Cleanup(func() {
		if err := r.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// fenced fails the test unless err says that the actor has another owner.
func fenced(t *testing.T, what string, db *vfs.DB, err error) {
	t.Helper()
	if err == nil || !errors.Is(db.Cause(), actorstore.ErrFenced) {
		t.Errorf("%s: got %v, and its cause is %v", what, err, db.Cause())
	}
}

// TestTakeover: when the actor gets another owner, the database that the old one
// has open answers nothing any more, from its caches either.
func TestTakeover(t *testing.T) {
	actions := map[string]func(ctx context.Context, c *sql.Conn) error{
		"cached read": func(ctx context.Context, c *sql.Conn) error {
			return c.QueryRowContext(ctx, "select b from t where a = 1").Scan(new(string))
		},
		"read of the schema": func(ctx context.Context, c *sql.Conn) error {
			return c.QueryRowContext(ctx, "select count(*) from sqlite_schema").Scan(new(int))
		},
		"insert": func(ctx context.Context, c *sql.Conn) error {
			_, err := c.ExecContext(ctx, "insert into t(b) values ('late')")
			return err
		},
		"delete": func(ctx context.Context, c *sql.Conn) error {
			_, err := c.ExecContext(ctx, "delete from t")
			return err
		},
		"vacuum": func(ctx context.Context, c *sql.Conn) error {
			_, err := c.ExecContext(ctx, "vacuum")
			return err
		},
		"begin": func(ctx context.Context, c *sql.Conn) error {
			_, err := c.ExecContext(ctx, "begin immediate")
			return err
		},
		"user_version": func(ctx context.Context, c *sql.Conn) error {
			_, err := c.ExecContext(ctx, "pragma user_version = 7")
			return err
		},
	}
	for name, act := range actions {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				old := ownerRig(t, eng, batch.Limits{})
				db := old.open(t, nil)
				conn := oneConn(t, db)
				exec(t, conn, table)
				exec(t, conn, "insert into t(b) values ('old')")
				one[string](t, conn, "select b from t where a = 1")
				owner := ownerRig(t, eng, batch.Limits{})
				fenced(t, name, db, act(t.Context(), conn))
				for other, act := range actions {
					fenced(t, other+" afterwards", db, act(t.Context(), conn))
				}
				if fresh, err := db.Conn(t.Context()); err == nil {
					fenced(t, "a new connection", db, actions["cached read"](t.Context(), fresh))
					if err := fresh.Close(); err != nil {
						t.Error(err)
					}
				}
				next := owner.open(t, nil)
				intact(t, next)
				if got := one[string](t, next, "select group_concat(b) from t"); got != "old" {
					t.Errorf("the new owner finds %q", got)
				}
				exec(t, next, "insert into t(b) values ('new')")
			})
		})
	}
}

// TestTakeoverCached: the same for pages that SQLite read or changed in a transaction that began
// before, in any mode.
func TestTakeoverCached(t *testing.T) {
	for name, begin := range map[string][]string{
		"read":      {"begin deferred"},
		"write":     {"begin immediate", "insert into t(b) values ('late')"},
		"exclusive": {"pragma locking_mode=exclusive", "insert into t(b) values ('before')"},
		"wal":       {"pragma journal_mode=wal", "insert into t(b) values ('before')"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				db := ownerRig(t, eng, batch.Limits{}).open(t, nil)
				conn := oneConn(t, db)
				exec(t, conn, table)
				exec(t, conn, "insert into t(b) values ('old')")
				for _, q := range begin {
					exec(t, conn, q)
				}
				const q = "select b from t where a = 1"
				prepared, err := conn.PrepareContext(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				one[string](t, conn, q)
				owner := ownerRig(t, eng, batch.Limits{})
				fenced(t, "a cached row", db, conn.QueryRowContext(t.Context(), q).Scan(new(string)))
				fenced(t, "a prepared statement", db, prepared.QueryRowContext(t.Context()).Scan(new(string)))
				_, err = conn.ExecContext(t.Context(), "insert into t(b) values ('later')")
				fenced(t, "an insert", db, err)
				if _, err := conn.ExecContext(t.Context(), " ROLLBACK "); err != nil && name != "exclusive" && name != "wal" {
					t.Errorf("rolling back: %v", err)
				}
				if err := prepared.Close(); err != nil {
					t.Error(err)
				}
				next := owner.open(t, nil)
				intact(t, next)
				if got := one[int](t, next, "select count(*) from t where b like 'late%'"); got != 0 {
					t.Errorf("%d rows of the old owner", got)
				}
			})
		})
	}
}

// TestTakeoverInTransaction: the same in the middle of a transaction, on the atomic
// path and when a part of it is already stored.
func TestTakeoverInTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		limits batch.Limits
		cache  string
		write  string
	}{
		"atomic":  {batch.Limits{}, "cache_size=2000", "update t set b = 'late'"},
		"spilled": {oneBatch, "cache_size=5", "update t set b = randomblob(1600)"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, eng kv.Engine) {
				old := ownerRig(t, eng, c.limits)
				db := old.open(t, &vfs.Options{Pragmas: []string{c.cache}})
				conn := oneConn(t, db)
				for range 8 {
					exec(t, conn, "create table if not exists t(a integer primary key, b blob)")
					exec(t, conn, fill)
				}
				want := contentOf(t, conn)
				exec(t, conn, "begin immediate")
				exec(t, conn, c.write)
				owner := ownerRig(t, eng, c.limits)
				_, err := conn.ExecContext(t.Context(), "commit")
				fenced(t, "commit", db, err)
				_, err = conn.ExecContext(t.Context(), "rollback") // SQLite may have rolled back already
				if err == nil {
					fenced(t, "read", db, conn.QueryRowContext(t.Context(), "select count(*) from t").Scan(new(int)))
				}
				next := owner.open(t, nil)
				intact(t, next)
				if got := contentOf(t, next); got != want {
					t.Errorf("the new owner finds %.60s, want %.60s", got, want)
				}
			})
		})
	}
}

// TestTakeoverOfPausedCommit: a transaction whose commit is on its way while the
// actor is taken over never lands, also when the new owner has written meanwhile.
func TestTakeoverOfPausedCommit(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"atomic": {}, "journal": oneBatch} {
		for _, writes := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				onBoth(t, func(t *testing.T, eng kv.Engine) {
					slow := faultkv.New(eng)
					old := ownerRig(t, slow, limits)
					db := old.open(t, nil)
					conn := oneConn(t, db)
					exec(t, conn, table)
					exec(t, conn, fill)
					want := contentOf(t, conn)
					reached, resume := make(chan struct{}), make(chan struct{})
					paused := false
					slow.Hook(func(op faultkv.Op) error {
						// The last commit of the transaction is the one that waits. One of a single
						// operation renews a lease.
						if op.Point == faultkv.BeforeCommit && op.Commit.Durability == kv.Durable && len(op.Commit.Ops) > 1 && !paused {
							paused = true
							close(reached)
							<-resume
						}
						return nil
					})
					done := make(chan error)
					go func() {
						_, err := conn.ExecContext(t.Context(), "update t set b = randomblob(1500)")
						done <- err
					}()
					<-reached
					owner := ownerRig(t, eng, limits)
					next := owner.open(t, nil)
					if writes {
						exec(t, next, "insert into t(b) values ('new')")
						want = contentOf(t, next)
					}
					close(resume)
					fenced(t, "the paused transaction", db, <-done)
					intact(t, next)
					if got := contentOf(t, next); got != want {
						t.Errorf("the new owner finds %.60s, want %.60s", got, want)
					}
				})
			})
		}
	}
}
