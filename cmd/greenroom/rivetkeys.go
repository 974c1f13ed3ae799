package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/rivetkit/importer"
)

// A rivetKeys reads the keys of one actor of RivetKit's file-system driver: from the table kv of its database or, if
// that is empty or isn't there, from the file of its state, where older versions kept them. The database is opened
// when keys are first asked for, and shows one state until Close.
type rivetKeys struct {
	ctx      context.Context
	importer *rivetImport
	state    *importer.State

	opened  bool
	db      *source // nil without one
	inTable bool    // the keys are in the database
}

// Close closes the database.
func (k *rivetKeys) Close() error {
	if k.db == nil {
		return nil
	}
	return k.db.Close()
}

// all yields the keys, as importer.Actor.Keys does.
func (k *rivetKeys) all(values bool) iter.Seq2[importer.Entry, error] {
	return func(yield func(importer.Entry, error) bool) {
		if err := k.open(); err != nil {
			yield(importer.Entry{}, err)
			return
		}
		if k.inTable {
			more := true
			err := k.rows(values, func(e importer.Entry) bool {
				more = yield(e, nil)
				return more
			})
			if err != nil && more {
				yield(importer.Entry{}, err)
			}
			return
		}
		for _, e := range k.state.Entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// open opens the database and finds out where the keys are.
func (k *rivetKeys) open() error {
	if k.opened {
		return nil
	}
	k.opened = true
	dir := k.importer.dir
	if has, err := dir.HasDatabase(k.state.ID); err != nil || !has {
		return err
	}
	var err error
	name := dir.DatabasePath(k.state.ID)
	if k.db, err = openSource(k.ctx, name, k.importer.env.progress); err != nil {
		return err
	}
	if err := k.db.check(k.ctx, k.importer.env.progress); err != nil {
		return err
	}
	others, err := k.tables()
	if err == nil && k.inTable {
		k.inTable, err = hasRow(k.db.conn, "SELECT 1 FROM kv LIMIT 1")
	}
	if err != nil {
		return sourceError(name, err)
	}
	if len(others) > 0 {
		k.importer.problem("%s has tables that RivetKit 2.1 doesn't read, which are not imported: %s", name, strings.Join(others, ", "))
	}
	return nil
}

// tables sets inTable if there is the table kv, and returns the names of the others.
func (k *rivetKeys) tables() (others []string, err error) {
	const query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
	err = queryRows(k.db.conn, query, func(row *sqlite3.Stmt) (bool, error) {
		if name := row.ColumnText(0); name == "kv" {
			k.inTable = true
		} else {
			others = append(others, name)
		}
		return true, nil
	})
	return others, err
}

// rivetMaxKey is the length from which on a key isn't even read, in bytes: far more than what an actor may store.
const rivetMaxKey = 64 << 10

// rows calls yield with the keys in the table, until it returns false. The table is read in its own order, so that
// nothing is sorted.
func (k *rivetKeys) rows(values bool, yield func(importer.Entry) bool) error {
	query := fmt.Sprintf("SELECT CASE WHEN length(key) <= %d THEN key END, length(value), typeof(key), typeof(value)", rivetMaxKey)
	if values {
		query += ", value"
	}
	defer k.db.conn.SetInterrupt(k.db.conn.SetInterrupt(k.ctx))
	err := queryRows(k.db.conn, query+" FROM kv", func(row *sqlite3.Stmt) (bool, error) {
		if key, value := row.ColumnText(2), row.ColumnText(3); key != "blob" || value != "blob" {
			return false, say(nil, "%s has a key of the type %s with a value of the type %s, not two blobs", k.db.name, key, value)
		}
		if row.ColumnType(0) == sqlite3.NULL {
			return false, say(nil, "%s has a key of more than %d bytes", k.db.name, rivetMaxKey)
		}
		e := importer.Entry{Key: row.ColumnRawBlob(0), Size: int(row.ColumnInt64(1))}
		if values {
			e.Value = row.ColumnRawBlob(4)
		}
		return yield(e), nil
	})
	if k.ctx.Err() != nil {
		return k.ctx.Err()
	}
	return sourceError(k.db.name, err)
}

// queryRows calls each with every row of a query, until it returns false.
func queryRows(c *sqlite3.Conn, query string, each func(*sqlite3.Stmt) (bool, error)) (err error) {
	stmt, _, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for stmt.Step() {
		if more, err := each(stmt); err != nil || !more {
			return err
		}
	}
	return stmt.Err()
}

// hasRow reports whether a query has a row.
func hasRow(c *sqlite3.Conn, query string) (found bool, err error) {
	err = queryRows(c, query, func(*sqlite3.Stmt) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}
