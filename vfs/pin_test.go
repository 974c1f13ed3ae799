package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A strictEngine counts open snapshots, and tells reads that a snapshot's Close runs
// beside, or that come after it.
type strictEngine struct {
	kv.Engine
	open, wrong atomic.Int64
}

type strictSnapshot struct {
	kv.Snapshot
	e      *strictEngine
	reads  atomic.Int64
	closed atomic.Bool
}

// Shared says that one process has the store.
func (e *strictEngine) Shared() *sync.Map { return kv.Shared(e.Engine) }

func (e *strictEngine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := e.Engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	e.open.Add(1)
	return &strictSnapshot{Snapshot: s, e: e}, nil
}

func (s *strictSnapshot) read() (done func()) {
	s.reads.Add(1)
	if s.closed.Load() {
		s.e.wrong.Add(1)
	}
	return func() {
		if s.closed.Load() {
			s.e.wrong.Add(1)
		}
		s.reads.Add(-1)
	}
}

func (s *strictSnapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	defer s.read()()
	return s.Snapshot.Get(ctx, key, dst)
}

func (s *strictSnapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		defer s.read()()
		s.Snapshot.Scan(ctx, r)(yield)
	}
}

func (s *strictSnapshot) Close() error {
	if s.reads.Load() > 0 || s.closed.Swap(true) {
		s.e.wrong.Add(1)
	}
	s.e.open.Add(-1)
	return s.Snapshot.Close()
}

// strictPool opens a pool of connections with small caches on an actor whose table
// has hundreds of pages.
func strictPool(t *testing.T, limits batch.Limits, opts vfs.Options) (*strictEngine, *vfs.DB) {
	t.Helper()
	engine := &strictEngine{Engine: memkv.New()}
	r := newRigOn(t, engine, limits)
	opts.Pragmas = append(opts.Pragmas, "cache_size=5")
	db := r.open(t, &opts)
	exec(t, db, table)
	exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 300)")
	t.Cleanup(func() {
		if n := engine.wrong.Load(); n > 0 {
			t.Errorf("%d times a snapshot was closed under a read, or read after that", n)
		}
	})
	return engine, db
}

// tooOld fails the test unless err says that the transaction reads a state that is
// not kept any more, in the words of SQLite and of this package.
func tooOld(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, sqlite3.BUSY) || !errors.Is(vfs.Cause(err), vfs.ErrSnapshotTooOld) {
		t.Errorf("%s: %v, and its cause is %v", what, err, vfs.Cause(err))
	}
}

const sumT = "select sum(length(b)) from t"

func readOnlyTx(t *testing.T, db *vfs.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// TestSnapshotAge: a transaction may read an old state for MaxSnapshotAge, and its
// connection is as good as new with the next one.
func TestSnapshotAge(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"atomic": {}, "journal": oneBatch} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine, db := strictPool(t, limits, vfs.Options{MaxSnapshotAge: time.Hour})
				old := readOnlyTx(t, db)
				if n := one[int](t, old, sumT); n != 900_000 {
					t.Fatalf("%d bytes", n)
				}
				time.Sleep(10 * time.Hour) // nothing was written: the state is the newest one
				if n := one[int](t, old, sumT); n != 900_000 {
					t.Fatalf("%d bytes after ten hours", n)
				}
				exec(t, db, "update t set b = zeroblob(3001)")
				young := readOnlyTx(t, db)
				time.Sleep(59 * time.Minute)
				if n := one[int](t, old, sumT); n != 900_000 {
					t.Fatalf("%d bytes, an hour after they were replaced", n)
				}
				one[int](t, young, sumT)
				time.Sleep(2 * time.Minute)
				tooOld(t, "the old reader", old.QueryRowContext(t.Context(), sumT).Scan(new(int)))
				tooOld(t, "asked again", old.QueryRowContext(t.Context(), sumT).Scan(new(int)))
				if n := one[int](t, young, sumT); n != 900_300 {
					t.Errorf("the other reader sees %d bytes", n)
				}
				if err := errors.Join(old.Rollback(), young.Rollback()); err != nil {
					t.Error(err)
				}
				if n := one[int](t, db, sumT); n != 900_300 || db.Stats().Expired != 1 {
					t.Errorf("%d bytes, %+v", n, db.Stats())
				}
				intact(t, db)
				exec(t, db, "update t set b = ''")
				time.Sleep(3 * time.Hour)
				if n := engine.open.Load(); n != 0 {
					t.Errorf("%d snapshots are open", n)
				}
			})
		})
	}
}

// TestSnapshotOfStatement: a statement in a transaction of its own expires, too, and
// leaves its connection usable. So does a transaction that SQLite was told to begin.
func TestSnapshotOfStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshotAge: time.Hour})
		conn := oneConn(t, db)
		for _, begin := range []bool{false, true} {
			if begin {
				exec(t, conn, "begin")
			}
			rows, err := conn.QueryContext(t.Context(), "select b from t")
			if err != nil || !rows.Next() {
				t.Fatal(err)
			}
			exec(t, db, "update t set b = b || ' '")
			time.Sleep(2 * time.Hour) // abandoned
			if n := engine.open.Load(); n != 0 {
				t.Errorf("%d snapshots are open", n)
			}
			for rows.Next() {
			}
			tooOld(t, "the statement", errors.Join(rows.Err(), rows.Close()))
			if begin {
				tooOld(t, "in the transaction", conn.QueryRowContext(t.Context(), sumT).Scan(new(int)))
				_, err := conn.ExecContext(t.Context(), "update t set b = 1")
				if !errors.Is(err, sqlite3.BUSY) {
					t.Errorf("a write in it: %v", err)
				}
				exec(t, conn, "rollback")
			}
			if n := one[int](t, conn, "select count(*) from t where b is not null"); n != 300 {
				t.Errorf("%d rows", n)
			}
			exec(t, conn, "update t set b = zeroblob(3000)")
			intact(t, conn)
		}
	})
}

// TestIdle: an idle connection, pool, open transaction or unfinished result keeps nothing alive in
// the engine.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshotAge: time.Hour})
		snapshots := func(when string, want int64) {
			t.Helper()
			if n := engine.open.Load(); n != want {
				t.Errorf("%s: %d snapshots are open, want %d", when, n, want)
			}
		}
		snapshots("before a read", 0)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { one[int](t, db, sumT) })
		}
		all.Wait()
		snapshots("the pool is idle", 0)
		conn := oneConn(t, db)
		one[int](t, conn, sumT)
		snapshots("a connection is idle", 0)
		for range 3 {
			exec(t, conn, "begin")
			one[int](t, conn, sumT)
			snapshots("a transaction", 1)
			time.Sleep(3 * time.Hour)
			snapshots("a transaction that reads the newest state, idle", 0)
			if n := one[int](t, conn, sumT); n != 900_000 {
				t.Errorf("%d bytes", n)
			}
			snapshots("it reads on", 1)
			exec(t, conn, "commit")
			snapshots("it is over", 0)
		}
		rows, err := conn.QueryContext(t.Context(), "select b from t")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		snapshots("rows", 1)
		time.Sleep(3 * time.Hour)
		snapshots("abandoned rows", 0)
		n := 1
		for rows.Next() {
			n++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || n != 300 {
			t.Errorf("%d rows, %v", n, err)
		}
		snapshots("rows that are closed", 0)
	})
}

// TestSnapshotOfWriter: the writer's view doesn't expire under it, nor does the
// newest state under readers while the writer has stored a part of its transaction.
func TestSnapshotOfWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := strictPool(t, oneBatch, vfs.Options{MaxSnapshotAge: time.Hour, MaxSnapshots: 1, TxMemory: vfs.LeastTxMemory})
		w := oneConn(t, db)
		exec(t, w, "begin immediate")
		one[int](t, w, sumT)
		time.Sleep(5 * time.Hour)
		one[int](t, w, sumT)
		before := readOnlyTx(t, db)
		one[int](t, before, sumT)
		for i := range 3 {
			exec(t, w, "update t set b = zeroblob(3002)")
			exec(t, w, "insert into t(b) select zeroblob(3000) from generate_series(1, 300)")
			time.Sleep(5 * time.Hour)
			during := readOnlyTx(t, db)
			for _, tx := range []*sql.Tx{before, during} {
				if n := one[int](t, tx, sumT); n != 900_000 {
					t.Errorf("round %d: a reader sees %d bytes", i, n)
				}
			}
			if err := during.Rollback(); err != nil {
				t.Error(err)
			}
		}
		if db.Stats().Spills == 0 {
			t.Error("nothing was stored before the commit")
		}
		exec(t, w, "commit")
		tooOld(t, "the reader after the commit", before.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		if err := before.Rollback(); err != nil {
			t.Error(err)
		}
		intact(t, db)
	})
}

// TestSnapshotOfHotJournal: what readers see while a journal is left behind is the
// last committed state, and stays that until it was rolled back, however long.
func TestSnapshotOfHotJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		db, err := vfs.Load(t.Context(), r.Actor, &vfs.Options{MaxSnapshotAge: time.Hour, MaxSnapshots: 1, TxMemory: vfs.LeastTxMemory})
		if err != nil {
			t.Fatal(err)
		}
		w, reader := db.Open(t.Context(), false), db.Open(t.Context(), false)
		write(t, w, 4)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(reader.Lock(sqlitevfs.LOCK_SHARED))
		page := make([]byte, chunked.Size)
		_, err = reader.ReadAt(page, chunked.Size)
		must(err)
		for l := sqlitevfs.LOCK_SHARED; l <= sqlitevfs.LOCK_EXCLUSIVE; l++ {
			must(w.Lock(l))
		}
		j := db.OpenJournal(t.Context())
		_, err = j.WriteAt(format.JournalMagic, 0)
		must(err)
		_, err = w.WriteAt(make([]byte, chunked.Size), chunked.Size)
		must(err)
		_, err = j.WriteAt(make([]byte, vfs.LeastTxMemory), chunked.Size) // more than is kept in memory
		must(err)
		must(w.Unlock(sqlitevfs.LOCK_NONE)) // the connection dies
		if in := db.Look(); !in.Hot || !in.Dirty {
			t.Fatalf("%+v", in)
		}
		time.Sleep(9 * time.Hour)
		late := db.Open(t.Context(), true)
		must(late.Lock(sqlitevfs.LOCK_SHARED))
		for _, h := range []*vfs.Handle{reader, late} {
			clear(page)
			if _, err = h.ReadAt(page, chunked.Size); err != nil || !(*format.Header)(page[:format.HeaderSize]).Plain() {
				t.Errorf("the committed page is lost: %v", err)
			}
		}
		must(errors.Join(late.Close(), reader.Close(), w.Close()))
		db.Close()
	})
}

// TestSnapshotNumber: of the states that transactions read, the newest ones are kept.
func TestSnapshotNumber(t *testing.T) {
	for _, most := range []int{1, 3, -1} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			engine, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshots: most, MaxSnapshotAge: -1, MaxConns: 12})
			var readers []*sql.Tx
			w := oneConn(t, db)
			for i := range 8 {
				tx := readOnlyTx(t, db)
				readers = append(readers, tx)
				if n := one[int](t, tx, sumT); n != 900_000+300*i {
					t.Errorf("reader %d sees %d bytes", i, n)
				}
				exec(t, w, fmt.Sprintf("update t set b = zeroblob(%d)", 3001+i))
				if n := engine.open.Load(); most > 0 && n > int64(most) {
					t.Errorf("%d snapshots are open", n)
				}
			}
			for i, tx := range readers {
				var n int
				err := tx.QueryRowContext(t.Context(), sumT).Scan(&n)
				if most > 0 && i <= 8-most {
					tooOld(t, fmt.Sprintf("reader %d", i), err)
				} else if err != nil || n != 900_000+300*i {
					t.Errorf("reader %d sees %d bytes, %v", i, n, err)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			}
			intact(t, db)
			if n := engine.open.Load(); n != 0 {
				t.Errorf("%d snapshots are open", n)
			}
		})
	}
}

// TestSnapshotRace: while views expire under them, readers get the right answer or the
// error that says so, and no snapshot is closed under a read.
func TestSnapshotRace(t *testing.T) {
	t.Parallel()
	engine, db := strictPool(t, batch.Limits{}, vfs.Options{MaxSnapshots: 1})
	var right, expired [4]atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for i := range right {
		readers.Go(func() {
			for ctx.Err() == nil {
				var least, most int
				err := db.QueryRowContext(t.Context(), "select min(length(b)), max(length(b)) from t").Scan(&least, &most)
				switch {
				case errors.Is(err, sqlite3.BUSY): // SQLite may lose the rest of the code while it reads the schema
					expired[i].Add(1)
				case err != nil || least != most:
					t.Errorf("%d to %d: %v", least, most, err)
					return
				default:
					right[i].Add(1)
				}
			}
		})
	}
	w := oneConn(t, db)
	count := func(of *[4]atomic.Int64) (n int64) {
		for i := range of {
			n += of[i].Load()
		}
		return n
	}
	for i := 0; (i < 100 || count(&right) < 20 || count(&expired) < 20) && !t.Failed(); i++ {
		// What is changed is all pages, or none that the readers look at.
		if i%10 == 0 {
			exec(t, w, fmt.Sprintf("update t set b = zeroblob(%d)", 3000+i%100))
		} else {
			exec(t, w, "create table if not exists u(a); insert into u values (1)")
		}
	}
	cancel()
	readers.Wait()
	t.Logf("%d right, %d expired", count(&right), count(&expired))
	if n := engine.open.Load(); n != 0 {
		t.Errorf("%d snapshots are open", n)
	}
	intact(t, db)
}
