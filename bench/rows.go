package main

import (
	"errors"
	"fmt"
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

// newNoise returns a generator of bytes that no compression makes smaller. They, too, depend
// on the seed alone.
func newNoise(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

// bodySize is the size of the values of user keys, messages and results of steps.
const bodySize = 100

// noisy returns a body made of noise.
func noisy(seed int) []byte {
	body := make([]byte, bodySize)
	newNoise(byte(seed)).Read(body) // never fails
	return body
}

// inCBOR returns a body as a byte string in CBOR.
func inCBOR(body []byte) []byte { return append([]byte{0x58, bodySize}, body...) }

// rows makes up rows: a counts up from 1, as the row ids do, and b is noise, so that no
// compression makes it smaller than SQLite sees it. Of a long one only the beginning is
// made anew for each row: that would take longer than to store it.
type rows struct {
	noise *rand.ChaCha8
	a     int64
	b     []byte
}

// newRows makes rows whose b has length bytes, blobSize at least.
func newRows(length int) *rows {
	r := &rows{noise: newNoise(1), b: make([]byte, length)}
	r.noise.Read(r.b) // never fails
	return r
}

// next makes up the next row.
func (r *rows) next() {
	r.a++
	r.noise.Read(r.b[:blobSize])
}

// insert runs stmt, an insertRow, with the next row.
func (r *rows) insert(stmt *sqlite3.Stmt) error {
	r.next()
	return errors.Join(stmt.BindInt64(1, r.a), stmt.BindBlob(2, r.b), stmt.Exec())
}

// appends prepares transactions that append n rows with blobs of that length to the table,
// which is there.
func appends(s *stand, c *sqlite3.Conn, n, length int) func() error {
	begin, insert, commit := statement(s, c, "BEGIN IMMEDIATE"), statement(s, c, insertRow), statement(s, c, "COMMIT")
	rows := newRows(length)
	return func() error {
		err := begin.Exec()
		for i := 0; i < n && err == nil; i++ {
			err = rows.insert(insert)
		}
		if err != nil {
			return err
		}
		return commit.Exec()
	}
}

// load creates the table with n rows, in one transaction.
func load(s *stand, c *sqlite3.Conn, n int) {
	check(c.Exec(createTable))
	check(appends(s, c, n, blobSize)())
}

// readRow reads the row of that id.
func readRow(s *stand, c *sqlite3.Conn, id int) {
	stmt := statement(s, c, fmt.Sprintf(`SELECT a FROM t WHERE id = %d`, id))
	if !stmt.Step() || stmt.ColumnInt64(0) == 0 {
		check(errors.Join(fmt.Errorf("row %d was not read", id), stmt.Err()))
	}
}
