package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ncruces/go-sqlite3"
)

// A lookup is sqlite/point: every operation reads one random row by its primary
// key. All pages are in SQLite's own cache, so that what is measured is how a
// read transaction begins and ends.
type lookup struct {
	stmt *sqlite3.Stmt
	rnd  *rand.Rand
	n    int
}

func startPoint(c *sqlite3.Conn, s sizes) (operation, error) {
	stmt, err := prepare(c, `SELECT a, b FROM t WHERE id = ?`)
	if err != nil {
		return nil, err
	}
	o := &lookup{stmt, newRand(2), s.point}
	for id := range s.point { // fills the cache
		if err := o.get(int64(id + 1)); err != nil {
			return nil, errors.Join(err, o.close())
		}
	}
	return o, nil
}

func (o *lookup) run(n int) error {
	for range n {
		if err := o.get(o.rnd.Int64N(int64(o.n)) + 1); err != nil {
			return err
		}
	}
	return nil
}

func (o *lookup) get(id int64) error {
	if err := o.stmt.BindInt64(1, id); err != nil {
		return err
	}
	if !o.stmt.Step() {
		return errors.Join(fmt.Errorf("row %d was not read", id), o.stmt.Reset())
	}
	if a, b := o.stmt.ColumnInt64(0), o.stmt.ColumnRawBlob(1); a != id || len(b) != blobSize {
		return fmt.Errorf("row %d has a = %d and a blob of %d bytes", id, a, len(b))
	}
	return o.stmt.Reset()
}

func (o *lookup) close() error { return o.stmt.Close() }

// rangeRows is how many rows a query of sqlite/range reads.
const rangeRows = 100

// A stretch is sqlite/range: every operation reads some rows that follow each other, from a
// random one on. All pages are in SQLite's own cache.
type stretch struct {
	stmt *sqlite3.Stmt
	rnd  *rand.Rand
	n    int
}

func startRange(c *sqlite3.Conn, s sizes) (operation, error) {
	stmt, err := prepare(c, `SELECT a, b FROM t WHERE id >= ? AND id < ?`)
	if err != nil {
		return nil, err
	}
	o := &stretch{stmt, newRand(4), s.point - rangeRows + 1}
	for id := 1; id <= o.n; id += rangeRows { // fills the cache
		if err := o.get(int64(id)); err != nil {
			return nil, errors.Join(err, o.close())
		}
	}
	return o, nil
}

func (o *stretch) run(n int) error {
	for range n {
		if err := o.get(o.rnd.Int64N(int64(o.n)) + 1); err != nil {
			return err
		}
	}
	return nil
}

func (o *stretch) get(from int64) error {
	if err := errors.Join(o.stmt.BindInt64(1, from), o.stmt.BindInt64(2, from+rangeRows)); err != nil {
		return err
	}
	next := from
	for o.stmt.Step() {
		if a, b := o.stmt.ColumnInt64(0), o.stmt.ColumnRawBlob(1); a != next || len(b) != blobSize {
			return errors.Join(fmt.Errorf("row %d has a = %d and a blob of %d bytes", next, a, len(b)), o.stmt.Reset())
		}
		next++
	}
	if err := o.stmt.Reset(); err != nil {
		return err
	}
	if next != from+rangeRows {
		return fmt.Errorf("a range has %d rows, not %d", next-from, rangeRows)
	}
	return nil
}

func (o *stretch) close() error { return o.stmt.Close() }

// scanCache is what SQLite may cache during a scan, in KiB: 64 pages, so that
// every page of the table is read through the VFS every time.
const scanCache = `PRAGMA cache_size = -256`

// A sweep is sqlite/scan: every operation reads the whole table.
type sweep struct {
	stmt *sqlite3.Stmt
	n    int64
}

func startScan(c *sqlite3.Conn, s sizes) (operation, error) {
	if err := c.Exec(scanCache); err != nil {
		return nil, err
	}
	stmt, err := prepare(c, `SELECT count(a), sum(a) FROM t`)
	if err != nil {
		return nil, err
	}
	return &sweep{stmt, int64(s.scan)}, nil
}

func (o *sweep) run(n int) error {
	for range n {
		if !o.stmt.Step() {
			return errors.Join(errors.New("a scan had no result"), o.stmt.Reset())
		}
		count, sum := o.stmt.ColumnInt64(0), o.stmt.ColumnInt64(1)
		if count != o.n || sum != o.n*(o.n+1)/2 {
			return fmt.Errorf("a scan found %d rows with the sum %d, not %d", count, sum, o.n)
		}
		if err := o.stmt.Reset(); err != nil {
			return err
		}
	}
	return nil
}

func (o *sweep) close() error { return o.stmt.Close() }
