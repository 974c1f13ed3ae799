package main

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/ncruces/go-sqlite3"
)

// The table that all SQLite workloads use. With its header and its key, a row
// takes about 115 bytes of a page.
const createTable = `CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b BLOB NOT NULL)`

const insertRow = `INSERT INTO t(a, b) VALUES(?, ?)`

// blobSize is the length of column b, but for that of sqlite/blob.
const blobSize = 100

// newRand returns a generator whose numbers depend on the seed alone, so that
// both sides of a line, and every run, work on the same data.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// noise fills b with what no compression makes smaller.
func noise(rnd *rand.Rand, b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rnd.Uint64())
		b = b[8:]
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], rnd.Uint64())
	copy(b, last[:])
}

// rows makes up rows: a counts up from 1, as the row ids do, and b is noise, so that no
// compression makes it smaller than SQLite sees it. Of a long one only the beginning is
// made anew for each row: that would take longer than to store it.
type rows struct {
	rnd *rand.Rand
	a   int64
	b   []byte
}

// newRows makes rows whose b has length bytes, blobSize at least.
func newRows(length int) *rows {
	r := &rows{rnd: newRand(1), b: make([]byte, length)}
	noise(r.rnd, r.b)
	return r
}

// next makes up the next row.
func (r *rows) next() {
	r.a++
	noise(r.rnd, r.b[:blobSize])
}

// insert runs stmt, an insertRow, with the next row.
func (r *rows) insert(stmt *sqlite3.Stmt) error {
	r.next()
	if err := stmt.BindInt64(1, r.a); err != nil {
		return err
	}
	if err := stmt.BindBlob(2, r.b); err != nil {
		return err
	}
	return stmt.Exec()
}

// load creates the table with n rows, in one transaction.
func load(c *sqlite3.Conn, n int) error {
	if err := c.Exec(createTable); err != nil {
		return err
	}
	op, err := newBulk(c, n, newRows(blobSize))
	if err != nil {
		return err
	}
	return errors.Join(op.run(1), op.close())
}

func loadPoint(c *sqlite3.Conn, s sizes) error { return load(c, s.point) }

func loadScan(c *sqlite3.Conn, s sizes) error { return load(c, s.scan) }
