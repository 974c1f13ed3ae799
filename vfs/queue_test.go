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
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A writingKind is a way to run a transaction that writes. Each returns which one of
// all transactions it was.
type writingKind struct {
	name string
	run  func(ctx context.Context, c *sql.Conn) (n int64, err error)
}

var writingKinds = []writingKind{
	{"begin immediate", func(ctx context.Context, c *sql.Conn) (n int64, err error) {
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		err = tx.QueryRowContext(ctx, "update t set b = b + 1 returning b").Scan(&n)
		return n, errors.Join(err, tx.Commit())
	}},
	{"statement", func(ctx context.Context, c *sql.Conn) (n int64, err error) {
		_, err = c.ExecContext(ctx, "update t set b = b + 1")
		return 0, err
	}},
	{"rolled back", func(ctx context.Context, c *sql.Conn) (n int64, err error) {
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		if _, err = tx.ExecContext(ctx, "update t set b = -1"); err != nil {
			return 0, errors.Join(err, tx.Rollback())
		}
		if err := tx.Rollback(); err != nil {
			return 0, err
		}
		_, err = c.ExecContext(ctx, "update t set b = b + 1")
		return 0, err
	}},
}

// TestFairness: of ten connections that write all the time, none waits for more than two rounds of
// the others, neither with transactions that begin as writers nor with single statements, even if
// some are rolled back.
func TestFairness(t *testing.T) {
	for _, kind := range writingKinds {
		t.Run(kind.name, func(t *testing.T) { fairly(t, kind) })
	}
}

func fairly(t *testing.T, kind writingKind) {
	const writers, most = 10, 20
	each := testkit.Pick(100, 300, 1000)
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: writers + 1})
	exec(t, db, "create table t(b)")
	exec(t, db, "insert into t values (0)")
	// All of them wait before one may write, or on one core each might be done before
	// the next one comes.
	first := oneConn(t, db)
	exec(t, first, "begin immediate")
	var last, behind atomic.Int64 // the last transaction that was seen; what one was behind it
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for range each {
				before := last.Load()
				n, err := kind.run(t.Context(), conn)
				if err != nil {
					t.Error(err)
					return
				}
				raise(&last, n)
				raise(&behind, n-before-1)
			}
		})
	}
	queued(t, db, writers)
	exec(t, first, "commit")
	all.Wait()
	if got := one[int](t, db, "select b from t"); got != writers*each {
		t.Errorf("%d transactions landed, want %d", got, writers*each)
	}
	s := db.Stats()
	t.Logf("%d waits, at most %d turns behind, seen from outside %d", s.WriterWaits, s.MostBehind, behind.Load())
	if s.MostBehind > most || s.WriterWaits < 2*writers {
		t.Errorf("a writer was %d turns behind, more than %d: %+v", s.MostBehind, most, s)
	}
}

// raise makes a at least n.
func raise(a *atomic.Int64, n int64) {
	for {
		old := a.Load()
		if n <= old || a.CompareAndSwap(old, n) {
			return
		}
	}
}

// TestQueueOrder: connections write in the order in which they asked.
func TestQueueOrder(t *testing.T) { synctest.Test(t, inOrder) }

func inOrder(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 6})
	exec(t, db, "create table t(b)")
	first := oneConn(t, db)
	exec(t, first, "begin immediate")
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 5 {
		conn := oneConn(t, db)
		all.Go(func() {
			q := "insert into t values (?)"
			if _, err := conn.ExecContext(t.Context(), q, i); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // until it is in the queue
		if waiting := d.Look().Waiting; waiting != i+1 {
			t.Errorf("%d are waiting, want %d", waiting, i+1)
		}
	}
	exec(t, first, "commit")
	all.Wait()
	if got := one[string](t, first, "select group_concat(b) from t"); got != "0,1,2,3,4" {
		t.Errorf("written in the order %s", got)
	}
}

// TestWaitEnds: the busy handler and the context end the wait for another writer, and a
// connection that has given up holds up no other one.
func TestWaitEnds(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) { waitEnds(t, mode) })
	}
}

func waitEnds(t *testing.T, mode string) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"journal_mode=" + mode}})
	exec(t, db, "create table t(b)")
	first := oneConn(t, db)
	for _, q := range []string{"begin immediate", "insert into t values (1)"} {
		for _, busy := range []string{"handler", "timeout", "context"} {
			exec(t, first, "begin immediate")
			c, err := sqlite3.Open(db.DSN())
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			switch busy {
			case "handler":
				err = c.BusyHandler(func(_ context.Context, n int) bool { asked++; return asked < 3 })
			case "timeout":
				err = c.BusyTimeout(30 * time.Millisecond)
			case "context":
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				defer cancel()
				c.SetInterrupt(ctx)
				err = c.BusyTimeout(time.Hour)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = c.Exec(q)
			if !errors.Is(err, sqlite3.BUSY) && !errors.Is(err, sqlite3.INTERRUPT) {
				t.Errorf("%s, %s: %v", q, busy, err)
			}
			if busy == "handler" && asked != 3 {
				t.Errorf("%s: the busy handler was asked %d times", q, asked)
			}
			exec(t, first, "commit")
			exec(t, db, "insert into t values (2)")
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	if in := d.Look(); in.Waiting > 0 || in.Writing {
		t.Errorf("%d wait for a writer that isn't there", in.Waiting)
	}
}

// TestNobodyWaits: readers and a writer never wait for each other, also while its
// transactions are stored in parts.
func TestNobodyWaits(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"atomic": {}, "journal": oneBatch} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, limits)
			db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=20"}})
			exec(t, db, table)
			exec(t, db, fill)
			ctx, cancel := context.WithCancel(t.Context())
			var readers sync.WaitGroup
			var reads [4]atomic.Int64
			for i := range reads {
				readers.Go(func() {
					for ctx.Err() == nil {
						tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
						if err != nil {
							t.Error(err)
							return
						}
						var first, second int
						q := "select count(*) || sum(length(b)) from t"
						err = errors.Join(tx.QueryRowContext(t.Context(), q).Scan(&first),
							tx.QueryRowContext(t.Context(), q).Scan(&second), tx.Rollback())
						if err != nil || first != second {
							t.Errorf("%d, then %d in one transaction: %v", first, second, err)
							return
						}
						reads[i].Add(1)
					}
				})
			}
			writer := oneConn(t, db)
			least := func() int64 {
				n := reads[0].Load()
				for i := range reads {
					n = min(n, reads[i].Load())
				}
				return n
			}
			for i := 0; (i < 40 || least() < 10) && !t.Failed(); i++ {
				exec(t, writer, fmt.Sprintf("update t set b = zeroblob(%d)", 1400+i%40))
			}
			cancel()
			readers.Wait()
			if s := db.Stats(); s.WriterWaits != 0 || s.ReaderWaits != 0 || s.BusyWriter != 0 || s.BusySnapshot != 0 {
				t.Errorf("%+v", s)
			}
			intact(t, db)
		})
	}
}

// TestNobodyWaitsForTheEngine: while the engine keeps any one commit of a transaction
// waiting, readers go on, also where SQLite's cache doesn't have the pages, and see the
// state before it; and while it keeps a read waiting, the writer goes on.
func TestNobodyWaitsForTheEngine(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"atomic": {}, "journal": oneBatch} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, limits)
			r.CacheBytes = -1 // reads are to reach the engine
			r.Reopen(t, limits)
			db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=5"}})
			exec(t, db, table)
			exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 40)")
			writer, reader := oneConn(t, db), oneConn(t, db)
			length := 3000
			look := func(when string) {
				t.Helper()
				if n := one[int](t, reader, "select sum(length(b)) from t"); n != 40*length {
					t.Errorf("%s: a reader sees %d bytes, want %d", when, n, 40*length)
				}
			}
			paused := 0
			for more := true; more; { // each commit of the transaction in turn
				pause := r.Engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: paused})
				done := make(chan error, 1)
				go func() {
					_, err := writer.ExecContext(t.Context(), fmt.Sprintf("update t set b = zeroblob(%d)", length+1))
					done <- err
				}()
				var err error
				select {
				case <-pause.Reached():
					look(fmt.Sprintf("commit %d hangs", paused))
					paused++
					pause.Release()
					err = <-done
				case err = <-done:
					more = false
				}
				if err != nil {
					t.Fatal(err)
				}
				r.Engine.Heal()
				length++
				look("afterwards")
			}
			if least := map[string]int{"atomic": 1, "journal": 10}[name]; paused < least && rig.Limits(t, limits) == limits {
				t.Errorf("%d commits were paused", paused)
			}
			pause := r.Engine.Pause(faultkv.Rule{Point: faultkv.BeforeGet, Match: func(op faultkv.Op) bool { return op.Snapshot }})
			saw := make(chan int, 1)
			go func() {
				var n int
				if err := reader.QueryRowContext(context.WithoutCancel(t.Context()), "select sum(length(b)) from t").Scan(&n); err != nil {
					t.Error(err)
				}
				saw <- n
			}()
			<-pause.Reached()
			for i := range 5 {
				exec(t, writer, fmt.Sprintf("update t set b = zeroblob(%d)", length+1+i))
			}
			pause.Release()
			if n := <-saw; n != 40*length {
				t.Errorf("the slow reader sees %d bytes, want %d", n, 40*length)
			}
			if s := db.Stats(); s.WriterWaits != 0 || s.ReaderWaits != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
