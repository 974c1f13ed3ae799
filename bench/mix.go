package main

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// mixReads is how many of ten operations of sqlite/mix read.
const mixReads = 9

// A mix is sqlite/mix: of ten operations nine read one random row, and one is a durable
// transaction that updates one.
type mix struct {
	reads  *lookup
	update *sqlite3.Stmt
	b      [blobSize]byte
	next   int
}

func startMix(c *sqlite3.Conn, s sizes) (operation, error) {
	reads, err := startPoint(c, s)
	if err != nil {
		return nil, err
	}
	o := &mix{reads: reads.(*lookup)}
	if o.update, err = prepare(c, `UPDATE t SET b = ? WHERE id = ?`); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *mix) run(n int) error {
	for range n {
		if err := o.one(); err != nil {
			return err
		}
	}
	return nil
}

func (o *mix) one() error {
	o.next++
	if o.next%(mixReads+1) != 0 {
		return o.reads.run(1)
	}
	noise(o.reads.rnd, o.b[:])
	id := o.reads.rnd.Int64N(int64(o.reads.n)) + 1
	if err := errors.Join(o.update.BindBlob(1, o.b[:]), o.update.BindInt64(2, id)); err != nil {
		return err
	}
	return o.update.Exec()
}

func (o *mix) close() error { return errors.Join(o.reads.close(), o.update.Close()) }

// startIndex is sqlite/index: an index on the random column of the whole table is made, and
// dropped.
func startIndex(c *sqlite3.Conn, _ sizes) (operation, error) {
	return &statements{c, []string{`CREATE INDEX i ON t(b)`, `DROP INDEX i`}}, nil
}

// startVacuum is sqlite/vacuum: the whole database is written anew.
func startVacuum(c *sqlite3.Conn, _ sizes) (operation, error) {
	return &statements{c, []string{`VACUUM`}}, nil
}

// statements are run in their order, as one operation. They are prepared each time: what one
// refers to is not there before the one in front of it ran.
type statements struct {
	conn *sqlite3.Conn
	sql  []string
}

func (o *statements) run(n int) error {
	for range n {
		for _, sql := range o.sql {
			if err := o.conn.Exec(sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
	}
	return nil
}

func (o *statements) close() error { return nil }
