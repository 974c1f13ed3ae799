package vfs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/filecheck"
)

// whereSQLite is the place of what SQLite finds.
const whereSQLite = "sqlite"

// A sqliteCheck is SQLite's part of a check.
type sqliteCheck struct {
	*filecheck.Checker
	ctx context.Context
}

// integrity lets SQLite look at the database of the view.
func (c *sqliteCheck) integrity(view *actorstore.View) error {
	db, err := OpenView(c.ctx, view, nil)
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil // it can't be read yet, and nothing is wrong with it
	case err != nil:
		return c.complaint(err, Cause(err))
	}
	err = c.tables(db)
	cause := db.Cause()
	if closed := db.Close(); err == nil {
		err = closed
	}
	return c.complaint(err, cause)
}

// tables looks at the database as a whole. If SQLite lacks what the program registers, tables
// looks at each table by itself.
func (c *sqliteCheck) tables(db *DB) error {
	told := map[string]bool{} // lines that were found: the pragmas repeat each other
	err := c.pragma(db, "integrity_check", told)
	if lacking(err) == "" {
		return err
	}
	if err := c.pragma(db, "quick_check", told); err != nil && lacking(err) == "" {
		return err
	}
	names, err := c.tableNames(db)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := c.pragma(db, "integrity_check("+sqlite3.Quote(name)+")", told)
		if what := lacking(err); what != "" {
			err = c.FindAt(filecheck.Unchecked, whereSQLite, fmt.Sprintf("table %s can't be checked here, but by its program: %s", name, what))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tableNames returns the names of the tables, those of virtual tables included.
func (c *sqliteCheck) tableNames(db *DB) (names []string, err error) {
	rows, err := db.QueryContext(c.ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// lacking returns what SQLite says that it lacks, if err is of something that a program
// registers with a connection; else "".
func lacking(err error) string {
	if !errors.Is(err, sqlite3.ERROR) {
		return ""
	}
	for _, what := range [...]string{"unknown function: ", "no such function: ", "no such collation sequence: ", "no such module: "} {
		if _, name, ok := strings.Cut(err.Error(), what); ok {
			return what + name
		}
	}
	return ""
}

// pragma runs PRAGMA integrity_check, or quick_check, which prints up to 100 lines, or
// "ok". The first row holds several, of which the first is a heading. Lines that were told
// aren't found again.
//
// https://sqlite.org/pragma.html#pragma_integrity_check
func (c *sqliteCheck) pragma(db *DB, pragma string, told map[string]bool) (err error) {
	rows, err := db.QueryContext(c.ctx, "PRAGMA "+pragma)
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
			if line == "ok" || line == "" || strings.HasPrefix(line, "***") || told[line] {
				continue
			}
			told[line] = true
			if err := c.FindAt(filecheck.Fault, whereSQLite, line); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

// complaint tells errors apart with which SQLite refuses a damaged database, which are
// findings, from those of the engine. cause is what this package told SQLite.
func (c *sqliteCheck) complaint(err, cause error) error {
	switch {
	case err == nil || errors.Is(err, filecheck.ErrStopped):
		return err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.Is(cause, actorstore.ErrCorrupt):
		return c.FindAt(filecheck.Fault, whereSQLite, cause.Error())
	case cause != nil:
		return cause
	case errors.Is(err, sqlite3.CORRUPT) && !c.Sound():
		return nil // it gave up after what it has found
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return c.FindAt(filecheck.Fault, whereSQLite, fmt.Sprintf("SQLite refuses it: %v", err))
	}
	return err
}
