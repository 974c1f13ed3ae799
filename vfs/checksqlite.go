package vfs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
)

// whereSQLite is the place of what SQLite finds.
const whereSQLite = "sqlite"

// integrity lets SQLite look at the database of the view.
func (c *checker) integrity(view *actorstore.View) error {
	db, err := OpenView(c.ctx, view, nil)
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil // nobody can read it yet, and nothing is wrong with it
	case err != nil:
		return c.complaint(err, Cause(err))
	}
	err = c.pragma(db)
	cause := db.Cause()
	if closed := db.Close(); err == nil {
		err = closed
	}
	return c.complaint(err, cause)
}

// pragma runs PRAGMA integrity_check, which prints up to 100 lines, or "ok". The first
// row holds several, of which the first is a heading.
//
// https://sqlite.org/pragma.html#pragma_integrity_check
func (c *checker) pragma(db *DB) (err error) {
	rows, err := db.QueryContext(c.ctx, "PRAGMA integrity_check")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		for line := range strings.SplitSeq(line, "\n") {
			if line == "ok" || line == "" || strings.HasPrefix(line, "***") {
				continue
			}
			if err := c.findAt(fault, whereSQLite, line); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

// complaint tells errors apart with which SQLite refuses a damaged database, which are
// findings, from those of the engine. cause is what this package told SQLite.
func (c *checker) complaint(err, cause error) error {
	switch {
	case err == nil || errors.Is(err, errStopped):
		return err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.Is(cause, actorstore.ErrCorrupt):
		return c.findAt(fault, whereSQLite, cause.Error())
	case cause != nil:
		return cause
	case errors.Is(err, sqlite3.CORRUPT) && !c.sound:
		return nil // it gave up after what it has found
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return c.findAt(fault, whereSQLite, fmt.Sprintf("SQLite refuses it: %v", err))
	}
	return err
}
