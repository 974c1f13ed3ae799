package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWALUpgrade: a transaction that writes after it has read never waits. It learns at once that
// another one writes, or that what it read is outdated. Another connection waits for it as long as
// its busy handler says, and goes on when it is over.
func TestWALUpgrade(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	logged(t, db)
	exec(t, db, "create table t(b); insert into t values (0)")
	open := func() *sqlite3.Conn {
		t.Helper()
		c, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	a, b := open(), open()
	do(t, a, "begin")
	scalar(t, a, "select b from t", "0")
	do(t, b, "begin immediate; update t set b = 1")
	if err := a.Exec("update t set b = b + 1"); !errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.BUSY_SNAPSHOT) {
		t.Errorf("upgrading beside a writer: %v", err)
	}
	do(t, b, "commit")
	if err := a.Exec("update t set b = b + 1"); !errors.Is(err, sqlite3.BUSY_SNAPSHOT) {
		t.Errorf("upgrading an outdated transaction: %v", err)
	}
	do(t, a, "rollback")
	waits, over := make(chan struct{}), make(chan struct{})
	if err := b.BusyHandler(func(context.Context, int) bool {
		waits <- struct{}{}
		<-over
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i, end := range []string{"commit", "rollback"} {
		do(t, a, "begin")
		scalar(t, a, "select count(*) from t", "1")
		do(t, a, "update t set b = b + 1")
		done := make(chan error, 1)
		go func() { done <- b.Exec("update t set b = b + 10") }()
		<-waits
		do(t, a, end)
		over <- struct{}{}
		if err := <-done; err != nil {
			t.Errorf("after %s: %v", end, err)
		}
		scalar(t, a, "select b from t", []string{"12", "22"}[i])
	}
	intact(t, db)
}

// TestWALMixed: connections of the pool, others, transactions that upgrade and checkpoints
// of every kind write beside each other, and nothing is lost. Their busy handlers wait for
// as long as it takes: SQLite promises no order.
func TestWALMixed(t *testing.T) {
	const each = 40
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 8, Pragmas: []string{"wal_autocheckpoint=10", "busy_timeout=10000000"}})
	logged(t, db)
	exec(t, db, "create table t(a integer primary key, b)")
	exec(t, db, "insert into t values (1, 0)")
	ctx, cancel := context.WithCancel(t.Context())
	var upgrades atomic.Int64
	var writers, others sync.WaitGroup
	for i := range 4 {
		conn := oneConn(t, db)
		writers.Go(func() {
			for range each {
				if _, err := writingKinds[i%3].run(t.Context(), conn); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		c, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.BusyTimeout(3 * time.Hour); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			for range each {
				if err := c.Exec("begin immediate; update t set b = b + 1; commit"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	upgrader, keeper := oneConn(t, db), oneConn(t, db)
	others.Go(func() {
		for ctx.Err() == nil {
			switch err := upgrade(t.Context(), upgrader); {
			case err == nil:
				upgrades.Add(1)
			case !errors.Is(err, sqlite3.BUSY):
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i%4]
			if _, err := keeper.ExecContext(t.Context(), fmt.Sprintf("PRAGMA wal_checkpoint(%s)", mode)); err != nil {
				t.Errorf("checkpoint %s: %v", mode, err)
				return
			}
		}
	})
	writers.Wait()
	cancel()
	others.Wait()
	if got, want := one[int64](t, db, "select b from t"), 6*each+upgrades.Load(); got != want {
		t.Errorf("%d transactions landed, want %d", got, want)
	}
	intact(t, db)
	rig.Exact(t, r.Actor)
}

// upgrade reads, and then writes.
func upgrade(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, "begin deferred")
	if err == nil {
		err = c.QueryRowContext(ctx, "select b from t").Scan(new(int))
	}
	if err == nil {
		_, err = c.ExecContext(ctx, "update t set b = b + 1")
	}
	end := "commit"
	if err != nil {
		end = "rollback"
	}
	_, ended := c.ExecContext(ctx, end)
	return errors.Join(err, ended)
}

// TestWALHoldsLog: a transaction reads the state of its start for as long as it likes,
// whatever Options.MaxSnapshotAge says. Until it ends, no checkpoint can empty the log.
func TestWALHoldsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshotAge: time.Hour, Pragmas: []string{"busy_timeout=1"}})
		logged(t, db)
		exec(t, db, "update t set b = randomblob(3000)")
		old := readOnlyTx(t, db)
		for range 5 {
			if n := one[int](t, old, sumT); n != 900_000 {
				t.Fatalf("the reader sees %d bytes", n)
			}
			exec(t, db, "update t set b = randomblob(3001)")
			if !truncateLog(t, db) {
				t.Error("a checkpoint empties the log that is read")
			}
			time.Sleep(time.Hour)
		}
		if err := old.Rollback(); err != nil {
			t.Error(err)
		}
		if truncateLog(t, db) {
			t.Error("a checkpoint is held up after the reader's end")
		}
		if s := db.Stats(); s.Expired != 0 {
			t.Errorf("%+v", s)
		}
		intact(t, db)
	})
}

// truncateLog runs a checkpoint, and says whether another connection was in its way.
func truncateLog(t *testing.T, db queryer) (busy bool) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, new(int), new(int)); err != nil {
		t.Fatal(err)
	}
	return busy
}
