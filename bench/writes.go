package main

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
)

// An insertion is sqlite/insert-1: every operation is a durable transaction of
// one row.
type insertion struct {
	stmt *sqlite3.Stmt
	rows *rows
}

func startInsert(c *sqlite3.Conn, _ sizes) (operation, error) {
	if err := c.Exec(createTable); err != nil {
		return nil, err
	}
	stmt, err := prepare(c, insertRow)
	if err != nil {
		return nil, err
	}
	return &insertion{stmt, newRows(blobSize)}, nil
}

func (o *insertion) run(n int) error {
	for range n {
		if err := o.rows.insert(o.stmt); err != nil {
			return err
		}
	}
	return nil
}

func (o *insertion) close() error { return o.stmt.Close() }

// A bulk is sqlite/bulk: every operation is a transaction that appends many rows.
type bulk struct {
	begin, insert, commit *sqlite3.Stmt
	rows                  *rows
	n                     int
}

func startBulk(c *sqlite3.Conn, s sizes) (operation, error) {
	if err := c.Exec(createTable); err != nil {
		return nil, err
	}
	return newBulk(c, s.bulk, newRows(blobSize))
}

// newBulk prepares transactions of n rows for a table that is there.
func newBulk(c *sqlite3.Conn, n int, rows *rows) (*bulk, error) {
	o := &bulk{rows: rows, n: n}
	err := prepareAll(c, map[string]**sqlite3.Stmt{"BEGIN IMMEDIATE": &o.begin, insertRow: &o.insert, "COMMIT": &o.commit})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *bulk) run(n int) error {
	for range n {
		if err := o.transaction(); err != nil {
			return err
		}
	}
	return nil
}

func (o *bulk) transaction() error {
	if err := o.begin.Exec(); err != nil {
		return err
	}
	for range o.n {
		if err := o.rows.insert(o.insert); err != nil {
			return err
		}
	}
	return o.commit.Exec()
}

// blobLength is the size of the blobs of sqlite/blob.
const blobLength = 1 << 20

// startBlobs is sqlite/blob: every operation is a transaction that appends a few large
// blobs.
func startBlobs(c *sqlite3.Conn, s sizes) (operation, error) {
	if err := c.Exec(createTable); err != nil {
		return nil, err
	}
	return newBulk(c, s.blobs, newRows(blobLength))
}

// close closes what is prepared; the Close of a nil statement does nothing.
func (o *bulk) close() error {
	return errors.Join(o.begin.Close(), o.insert.Close(), o.commit.Close())
}
