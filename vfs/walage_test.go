package vfs

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
	"github.com/ncruces/go-sqlite3/vfs/adiantum"

	"github.com/greenroomdb/greenroom/batch"
)

// agingRig opens a pool in WAL mode with 300 rows, all of them in the log.
func agingRig(t *testing.T, opts Options) *DB {
	t.Helper()
	_, db := strictPool(t, batch.Limits{}, opts)
	logged(t, db)
	exec(t, db, "update t set b = randomblob(3000)")
	return db
}

// TestWALReaderAge: a transaction that reads may do so for Options.MaxSnapshotAge after
// its state was replaced, however many states there are. Then it is refused, and the log
// can begin anew, also if it reads nothing; the same connection's next one reads.
func TestWALReaderAge(t *testing.T) {
	for name, wrap := range map[string]func(sqlitevfs.VFS) sqlitevfs.VFS{
		"plain":     nil,
		"encrypted": func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) },
	} {
		if raceDetector && wrap != nil {
			continue // encrypting takes long then
		}
		t.Run(name, func(t *testing.T) { ageReaders(t, wrap) })
	}
}

// TestWALReaderAgeCut: a reader whose state is gone is told so, too, where the file has
// become shorter: what lies behind its end is not zero to it. Of the pages that a value
// overflows into SQLite checks nothing.
func TestWALReaderAgeCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const value = "cast(replace(hex(zeroblob(2095)), '0', 'x') as blob)"
		_, db := strictPool(t, batch.Limits{}, Options{MaxSnapshotAge: time.Hour, Pragmas: []string{"cache_size=10"}})
		logged(t, db)
		exec(t, db, "create table cut(k integer primary key, b blob)")
		exec(t, db, "insert into cut select value, "+value+" from generate_series(1, 300)")
		exec(t, db, "pragma wal_checkpoint(truncate)")
		old := readOnlyTx(t, db)
		one[int](t, old, "select k from cut where k = 1")
		direct, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := direct.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := direct.Exec("begin; select sum(length(b)) from cut"); err != nil { // reads no overflow page
			t.Fatal(err)
		}
		exec(t, db, "delete from cut where k > 5")
		exec(t, db, "vacuum")
		time.Sleep(2 * time.Hour)
		exec(t, db, "update cut set b = 'y' where k = 2")
		exec(t, db, "pragma wal_checkpoint(truncate)")
		for _, k := range []int{290, 200, 100} {
			tooOld(t, fmt.Sprintf("row %d", k), old.QueryRowContext(t.Context(), "select length(b) from cut where k = ?", k).Scan(new(int)))
		}
		// What SQLite has in memory it has of the old state.
		if n := one[int](t, old, "select length(b) from cut where k = 2"); n != 4190 {
			t.Errorf("the row that was changed has %d bytes", n)
		}
		if err := old.Rollback(); err != nil {
			t.Error(err)
		}
		for k := int64(6); k <= 300; k++ {
			got := make([]byte, 2)
			b, err := direct.OpenBlob("main", "cut", "b", k, false)
			if err != nil {
				continue
			}
			if _, err := b.Seek(1000, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, err = b.Read(got); err == nil && string(got) != "xx" {
				t.Fatalf("row %d reads as %q, without an error", k, got)
			}
			if err := b.Close(); err != nil && !errors.Is(err, sqlite3.BUSY) {
				t.Log(err)
			}
		}
	})
}

func ageReaders(t *testing.T, wrap func(sqlitevfs.VFS) sqlitevfs.VFS) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{MaxSnapshotAge: time.Hour, Wrap: wrap}
		if wrap != nil {
			opts.Pragmas = []string{testKey}
		}
		db := agingRig(t, opts)
		old, idle := readOnlyTx(t, db), readOnlyTx(t, db)
		for _, tx := range []queryer{old, idle} {
			if n := one[int](t, tx, sumT); n != 900_000 {
				t.Fatalf("%d bytes", n)
			}
		}
		time.Sleep(10 * time.Hour) // nothing was written: the state is the newest one
		if n := one[int](t, old, sumT); n != 900_000 {
			t.Fatalf("%d bytes after ten hours", n)
		}
		exec(t, db, "update t set b = zeroblob(3001)")
		young := readOnlyTx(t, db)
		one[int](t, young, sumT)
		for range 59 {
			time.Sleep(time.Minute)
			exec(t, db, "update t set b = randomblob(3001) where a <= 20")
			if n := one[int](t, old, sumT); n != 900_000 {
				t.Fatalf("%d bytes, within an hour after they were replaced", n)
			}
		}
		time.Sleep(time.Hour)
		tooOld(t, "the old reader", old.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		tooOld(t, "asked again", old.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		tooOld(t, "the young reader", young.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		if canSeeLocks {
			exec(t, db, "update t set b = randomblob(3001) where a <= 20") // is followed by a checkpoint
			long := logBytes(t, db)
			for range 60 { // the idle reader holds nothing any more
				exec(t, db, "update t set b = randomblob(3001) where a <= 20")
			}
			if n := logBytes(t, db); n > long {
				t.Errorf("the log has grown from %d to %d bytes", long, n)
			}
			if truncateLog(t, db) || logBytes(t, db) != 0 {
				t.Errorf("a checkpoint is held up, the log has %d bytes", logBytes(t, db))
			}
			exec(t, db, "update t set b = randomblob(3002)")
		}
		tooOld(t, "the idle reader", idle.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		if _, err := old.ExecContext(t.Context(), "update t set b = 1"); err == nil {
			t.Error("the old reader writes")
		}
		tooOld(t, "after trying to write", old.QueryRowContext(t.Context(), sumT).Scan(new(int)))
		for _, tx := range []interface{ Rollback() error }{old, idle, young} {
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
		again := readOnlyTx(t, db)
		if n := one[int](t, again, sumT); n < 900_000 || db.Stats().Expired != 3 {
			t.Errorf("%d bytes, %+v", n, db.Stats())
		}
		if err := again.Rollback(); err != nil {
			t.Error(err)
		}
		intact(t, db)
	})
}

// truncateLog runs a checkpoint, and says whether somebody was in its way.
func truncateLog(t *testing.T, db queryer) (busy bool) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, new(int), new(int)); err != nil {
		t.Fatal(err)
	}
	return busy
}

// logBytes is the length of the log.
func logBytes(t *testing.T, db *DB) int64 {
	t.Helper()
	d, err := db.vfs.find(mountName)
	if err != nil {
		t.Fatal(err)
	}
	d.wal.mem.RLock()
	defer d.wal.mem.RUnlock()
	return d.wal.file.size
}

// TestWALIdleConnection: a connection that does nothing for long reads on, also where it
// has other databases open, and in which it has a transaction already.
func TestWALIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := agingRig(t, Options{MaxSnapshotAge: time.Hour})
		c, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		do(t, c, "pragma cache_size=5; attach ':memory:' as m; create table m.x(a); create temp table y(a); insert into x values (7)")
		for _, begin := range []string{"", "begin; select * from x; ", "begin; insert into x values (8); insert into y values (9);"} {
			scalar(t, c, "select count(*) from t", "300")
			for range 4 {
				exec(t, db, "update t set b = randomblob(3001)")
				time.Sleep(time.Hour)
			}
			if begin != "" {
				do(t, c, begin)
			}
			scalar(t, c, sumT, "900300")
			if begin != "" {
				for range 4 {
					exec(t, db, "update t set b = randomblob(3001)")
					time.Sleep(time.Hour)
				}
				if err := c.Exec(sumT); !errors.Is(err, sqlite3.BUSY_TIMEOUT) {
					t.Errorf("%q: reading a state of hours ago: %v", begin, err)
				}
				do(t, c, "commit; "+begin+sumT+"; commit")
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		intact(t, db)
	})
}

// TestWALWriterAge: a writer may take as long as it likes, and so may a checkpoint.
func TestWALWriterAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := agingRig(t, Options{MaxSnapshotAge: time.Hour})
		other := readOnlyTx(t, db)
		one[int](t, other, sumT)
		w := oneConn(t, db)
		exec(t, w, "begin immediate")
		for i := range 5 {
			exec(t, w, fmt.Sprintf("update t set b = zeroblob(%d)", 3001+i))
			time.Sleep(time.Hour)
			if n := one[int](t, w, sumT); n != 300*(3001+i) {
				t.Fatalf("%d bytes", n)
			}
		}
		exec(t, w, "commit")
		if n := one[int](t, other, sumT); n != 900_000 {
			t.Errorf("a reader of the state before sees %d bytes", n)
		}
		if err := other.Rollback(); err != nil {
			t.Error(err)
		}
		d, err := db.vfs.find(mountName)
		if err != nil {
			t.Fatal(err)
		}
		h := d.openHandle(t.Context(), false)
		h.logged, h.use.conn = true, new(sqlite3.Conn)
		h.CheckpointStart()
		if again := h.outdate(1<<62, 1<<62); !again || h.current() != nil {
			t.Errorf("a checkpoint may not read on: %v", h.current())
		}
		h.logged = false
		h.CheckpointDone()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		intact(t, db)
	})
}
