package vfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/batch"
)

// TestWALUpgrade: a transaction that has read, and writes then, has no turn. Outdated it
// is told so at once; while another one writes it is told that, by who has no busy
// handler; and who is in the queue waits for it and goes on when it has committed, or is
// rolled back.
func TestWALUpgrade(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	writeMode(t, db, "wal")
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
	if err := b.BusyTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	for i, end := range []string{"commit", "rollback"} {
		do(t, a, "begin")
		scalar(t, a, "select count(*) from t", "1")
		do(t, a, "update t set b = b + 1")
		waits := db.Stats().WriterWaits
		done := make(chan error, 1)
		go func() { done <- b.Exec("update t set b = b + 10") }()
		for db.Stats().WriterWaits == waits { // until it waits
		}
		do(t, a, end)
		if err := <-done; err != nil {
			t.Errorf("after %s: %v", end, err)
		}
		scalar(t, a, "select b from t", []string{"12", "22"}[i])
	}
	intact(t, db)
}

// TestWALTurnIsNotLost: a turn that its holder doesn't use, and whose end can't be seen,
// goes to the next.
func TestWALTurnIsNotLost(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	writeMode(t, db, "wal")
	exec(t, db, "create table t(b); insert into t values (0), (1), (2)")
	c, err := sqlite3.Open(db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rows, _, err := c.Prepare("select b from t")
	if err != nil {
		t.Fatal(err)
	}
	for i, leave := range []func(){
		func() { // rolled back, it goes on reading
			do(t, c, "begin immediate")
			if !rows.Step() {
				t.Fatal(rows.Err())
			}
			do(t, c, "update t set b = 7; rollback")
		},
		func() { // it has the turn, and doesn't begin
			d, err := db.vfs.find(mountName)
			if err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			for h := range d.wal.open {
				if h.use.conn == c {
					d.giveTurn(h)
				}
			}
			if d.wal.turns.holder.Load() == nil {
				t.Fatal("the connection is not there")
			}
		},
	} {
		leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := db.ExecContext(ctx, "update t set b = b + 1"); err != nil {
			t.Errorf("case %d: %v", i, err)
		}
		cancel()
		if err := rows.Reset(); err != nil {
			t.Error(err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	exec(t, db, "update t set b = b + 1")
	intact(t, db)
}

// TestWALTurnsMixed: connections of the pool, others, transactions that upgrade and
// checkpoints of every kind write beside each other; everybody comes to an end, and
// those in the queue are not overtaken for long.
func TestWALTurnsMixed(t *testing.T) {
	each := 300
	if raceDetector || testing.Short() {
		each = 40
	}
	r := newRig(t, batch.Limits{})
	db := r.open(t, &Options{MaxConns: 8, Pragmas: []string{"wal_autocheckpoint=10"}})
	writeMode(t, db, "wal")
	exec(t, db, "create table t(a integer primary key, b)")
	exec(t, db, "insert into t values (1, 0)")
	ctx, cancel := context.WithCancel(t.Context())
	var landed, checkpoints, upgrades atomic.Int64
	var writers, others sync.WaitGroup
	// They are at work until a checkpoint came to its turn, too, however late it begins.
	patience := time.Now().Add(time.Minute)
	more := func(n int) bool {
		return n < each || checkpoints.Load() == 0 && !t.Failed() && time.Now().Before(patience)
	}
	for i := range 4 {
		conn := oneConn(t, db)
		writers.Go(func() {
			for n := 0; more(n); n++ {
				if _, err := writingKinds[i%3].run(t.Context(), conn); err != nil {
					t.Error(err)
					return
				}
				landed.Add(1)
			}
		})
	}
	for range 3 {
		c, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.BusyTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			for n := 0; more(n); n++ {
				if err := c.Exec("begin immediate; update t set b = b + 1; commit"); err != nil {
					t.Error(err)
					return
				}
				landed.Add(1)
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
			var busy bool
			if err := keeper.QueryRowContext(t.Context(), fmt.Sprintf("PRAGMA wal_checkpoint(%s)", mode)).Scan(&busy, new(int), new(int)); err != nil {
				t.Errorf("checkpoint %s: %v", mode, err)
				return
			}
			if !busy {
				checkpoints.Add(1)
			}
		}
	})
	writers.Wait()
	cancel()
	others.Wait()
	if got, want := one[int64](t, db, "select b from t"), landed.Load()+upgrades.Load(); got != want {
		t.Errorf("%d transactions landed, want %d", got, want)
	}
	s := db.Stats()
	t.Logf("%d transactions, %d upgrades, %d checkpoints; %d waits, at most %d turns behind", landed.Load(), upgrades.Load(), checkpoints.Load(), s.WriterWaits, s.MostBehind)
	if checkpoints.Load() == 0 {
		t.Error("no checkpoint came to its turn")
	}
	intact(t, db)
	exact(t, r.actor)
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
