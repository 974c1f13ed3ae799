package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs"
)

// Peers of the SQLite workloads.
const (
	fileWALFull    = "file-wal-full"
	fileDeleteFull = "file-delete-full"
	memoryVFS      = "memdb"
	rawEngine      = "raw"
)

// anActor is the place of the subjects.
const anActor = ""

// A place opens connections to one database, which the stand closes. What a workload does
// to a connection is the same wherever it leads, so that places alone make the difference.
type place func() *sqlite3.Conn

// openPlace returns the database of that name in a file, through the VFS that go-sqlite3 brings;
// in its VFS memdb, which keeps pages in memory, knows nothing of the disk and is what a VFS
// in Go costs at least; or in an actor.
func openPlace(s *stand, kind, name string) place {
	file := filepath.Join(s.dir, name+".db")
	switch kind {
	case fileWALFull, fileDeleteFull:
		mode := map[string]string{fileWALFull: "WAL", fileDeleteFull: "DELETE"}[kind]
		return func() *sqlite3.Conn { return connect(s, file, "journal_mode="+mode, "synchronous=FULL") }
	case memoryVFS:
		file = strings.TrimLeft(filepath.ToSlash(file), "/") // unique in the process
		memdb.Create(file, nil)
		s.end(func() error { memdb.Delete(file); return nil })
		// Connections share a database whose name begins with a slash.
		dsn := "file:/" + (&url.URL{Path: file}).EscapedPath() + "?vfs=memdb"
		return func() *sqlite3.Conn { return connect(s, dsn, "synchronous=FULL") }
	}
	dsn := mount(s, s.actor(name))
	return func() *sqlite3.Conn { return connect(s, dsn, "synchronous=FULL") }
}

// mount makes the database of an actor ready for connections, and returns its address.
func mount(s *stand, a *actorstore.Actor) (dsn string) {
	const database = "bench.db"
	v := vfs.New(nil)
	name := fmt.Sprintf("greenroom-bench-%p", v) // unique in the process
	check(v.Mount(s.ctx, database, a))
	s.end(func() error { return v.Unmount(database) })
	check(v.Register(name))
	s.end(v.Unregister)
	return "file:/" + database + "?vfs=" + url.QueryEscape(name)
}

// connect opens a connection and runs pragmas on it.
func connect(s *stand, dsn string, pragmas ...string) *sqlite3.Conn {
	c := owned(s, must(sqlite3.Open(dsn)))
	for _, p := range pragmas {
		check(c.Exec("PRAGMA " + p))
	}
	return c
}

// statement prepares one statement.
func statement(s *stand, c *sqlite3.Conn, sql string) *sqlite3.Stmt {
	stmt, _, err := c.Prepare(sql)
	check(err)
	return owned(s, stmt)
}

// loaded returns a place with n rows in it, or an empty one for none.
func loaded(s *stand, kind, name string, n int) place {
	connect := openPlace(s, kind, name)
	if n == 0 {
		return connect
	}
	check(s.visit(func(*stand) { load(s, connect(), n) }))
	if kind != anActor { // closing the last connection forgot what can be forgotten
		return connect
	}
	s.restart()
	return openPlace(s, kind, name)
}

// in opens the workload on SQLite in a kind of place: with one connection to one database,
// or to each of many.
func (w workload) in(kind string) func(*stand) {
	return func(s *stand) {
		databases, rows := 1, 0
		if w.many {
			databases = s.sizes.actors
		}
		if w.rows != nil {
			rows = w.rows(s.sizes)
		}
		for i := range databases {
			op := w.start(s, loaded(s, kind, name(i), rows)())
			if w.many {
				// The first transaction finds nothing in SQLite's cache: with many databases it
				// would not be over with the warm-up.
				check(op())
			}
			if w.many && kind == memoryVFS {
				op = yielding(op)
			}
			s.workers = append(s.workers, repeat(op))
		}
	}
}

// yielding is for where nothing waits for a disk: else one worker would make many
// transactions on end, with what it needs in the caches of the processor, which none of 200
// has otherwise.
func yielding(op func() error) func() error {
	return func() error {
		defer runtime.Gosched()
		return op()
	}
}

// startInsert is sqlite/insert-1: every operation is a durable transaction of one row.
func startInsert(s *stand, c *sqlite3.Conn) func() error {
	check(c.Exec(createTable))
	stmt, rows := statement(s, c, insertRow), newRows(blobSize)
	return func() error { return rows.insert(stmt) }
}

// startBulk is sqlite/bulk: every operation is a transaction that appends many rows.
func startBulk(s *stand, c *sqlite3.Conn) func() error {
	check(c.Exec(createTable))
	return appends(s, c, s.sizes.bulk, blobSize)
}

// blobLength is the size of the blobs of sqlite/blob.
const blobLength = 1 << 20

// startBlobs is sqlite/blob: every operation is a transaction that appends a few large
// blobs.
func startBlobs(s *stand, c *sqlite3.Conn) func() error {
	check(c.Exec(createTable))
	return appends(s, c, s.sizes.blobs, blobLength)
}

// startPoint is sqlite/point: every operation reads one random row by its primary key. All
// pages are in SQLite's own cache, so that what is measured is how a read transaction begins
// and ends.
func startPoint(s *stand, c *sqlite3.Conn) func() error {
	return warm(s, statement(s, c, `SELECT a, b FROM t WHERE id = ?`), 1)
}

// rangeRows is how many rows a query of sqlite/range reads.
const rangeRows = 100

// startRange is sqlite/range: every operation reads some rows that follow each other, from a
// random one on. All pages are in SQLite's own cache.
func startRange(s *stand, c *sqlite3.Conn) func() error {
	return warm(s, statement(s, c, `SELECT a, b FROM t WHERE id >= ? AND id < ?`), rangeRows)
}

// warm reads all rows, so many at a time, and returns what reads some from a random one on.
func warm(s *stand, stmt *sqlite3.Stmt, rows int) func() error {
	last := s.sizes.point - rows + 1
	for id := 1; id <= last; id += rows {
		check(readRows(stmt, int64(id), rows))
	}
	rnd := newRand(uint64(1 + min(rows, 3)))
	return func() error { return readRows(stmt, 1+rnd.Int64N(int64(last)), rows) }
}

// readRows runs stmt for the rows from one id on. Its first parameter is that id, and its
// second, if it has one, the id behind the last row.
func readRows(stmt *sqlite3.Stmt, from int64, rows int) error {
	for i := range stmt.BindCount() {
		if err := stmt.BindInt64(i+1, from+int64(i*rows)); err != nil {
			return err
		}
	}
	for id := from; id < from+int64(rows); id++ {
		if !stmt.Step() {
			return errors.Join(fmt.Errorf("row %d was not read", id), stmt.Reset())
		}
		if a, b := stmt.ColumnInt64(0), stmt.ColumnRawBlob(1); a != id || len(b) != blobSize {
			return errors.Join(fmt.Errorf("row %d has a = %d and a blob of %d bytes", id, a, len(b)), stmt.Reset())
		}
	}
	return stmt.Reset()
}

// scanCache is what SQLite may cache during a scan, in KiB: 64 pages, so that every page of
// the table is read through the VFS every time.
const scanCache = `PRAGMA cache_size = -256`

// startScan is sqlite/scan: every operation reads the whole table.
func startScan(s *stand, c *sqlite3.Conn) func() error {
	check(c.Exec(scanCache))
	stmt, n := statement(s, c, `SELECT count(a), sum(a) FROM t`), int64(s.sizes.scan)
	return func() error {
		stmt.Step() // Reset reports its error
		count, sum := stmt.ColumnInt64(0), stmt.ColumnInt64(1)
		if err := stmt.Reset(); err != nil {
			return err
		}
		if count != n || sum != n*(n+1)/2 {
			return fmt.Errorf("a scan found %d rows with the sum %d, not %d", count, sum, n)
		}
		return nil
	}
}

// mixReads is how many of ten operations of sqlite/mix read.
const mixReads = 9

// startMix is sqlite/mix: of ten operations nine are sqlite/point, and one is a durable
// transaction that updates a random row.
func startMix(s *stand, c *sqlite3.Conn) func() error {
	point, update := startPoint(s, c), statement(s, c, `UPDATE t SET b = ? WHERE id = ?`)
	rnd, noise, b, next := newRand(3), newNoise(3), make([]byte, blobSize), 0
	return func() error {
		if next++; next%(mixReads+1) != 0 {
			return point()
		}
		noise.Read(b) // never fails
		return errors.Join(update.BindBlob(1, b), update.BindInt64(2, 1+rnd.Int64N(int64(s.sizes.point))), update.Exec())
	}
}

// startIndex is sqlite/index: an index on the random column of the whole table is made, and
// dropped.
func startIndex(_ *stand, c *sqlite3.Conn) func() error {
	return func() error { return c.Exec(`CREATE INDEX i ON t(b); DROP INDEX i`) }
}

// startVacuum is sqlite/vacuum: the whole database is written anew.
func startVacuum(_ *stand, c *sqlite3.Conn) func() error {
	return func() error { return c.Exec(`VACUUM`) }
}
