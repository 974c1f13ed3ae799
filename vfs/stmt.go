package vfs

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A stmt is a prepared statement of a pool.
type stmt struct {
	driverStmt
	conn   *conn
	query  string
	of     int  // conn.connected, when it was compiled
	once   bool // it isn't kept
	closed bool
	rows   rows // of the query that is under way
}

// fresh compiles s again if its connection was closed since and opened again.
func (s *stmt) fresh(ctx context.Context) error {
	if s.of == s.conn.connected {
		return nil
	}
	ds, err := s.conn.compile(ctx, s.query)
	if err == nil {
		s.driverStmt, s.of = ds, s.conn.connected
	}
	return err
}

// enter begins an execution, unless it may not run.
func (s *stmt) enter(ctx context.Context) error {
	if err := s.conn.enter(ctx); err != nil {
		return err
	}
	return s.fresh(ctx)
}

// NumInput is driver.Stmt's; -1 leaves the number to SQLite.
func (s *stmt) NumInput() int {
	if s.conn.lost != nil || s.fresh(context.Background()) != nil {
		return -1 // its execution says why
	}
	return ask(s.conn, -1, func() int { return s.driverStmt.NumInput() })
}

// Close is driver.Stmt's. The connection may keep the statement.
func (s *stmt) Close() (err error) {
	pool := s.conn.pool // database/sql calls this also while the connection is idle
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if s.conn.gone || s.of != s.conn.connected || s.conn.lost != nil {
		return nil
	}
	err = errLeft
	defer s.conn.guard(&err)
	if s.closed {
		return nil
	}
	s.closed = true
	last := s.driverStmt
	if !s.once {
		last = s.conn.kept.put(s.query, last)
	}
	if last == nil {
		return nil
	}
	return last.Close()
}

// ExecContext is driver.StmtExecContext's.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	nilIsNull(args)
	return call(ctx, s.conn, func() (driver.Result, error) {
		if err := s.lacks(args); err != nil {
			return nil, err
		}
		defer countRows(s.conn.db.actor, s.driverStmt, 0)
		return s.driverStmt.ExecContext(ctx, args)
	})
}

// QueryContext is driver.StmtQueryContext's. It takes the first step of the query, which
// compiles a statement anew whose tables have changed: only then are its columns known. So
// what INSERT … RETURNING does is done, whether its rows are read or not.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	nilIsNull(args)
	r := &s.rows
	if r.driverRows != nil { // a second query of one statement
		r = new(rows)
	}
	_, err := call(ctx, s.conn, func() (struct{}, error) {
		if err := s.lacks(args); err != nil {
			return struct{}{}, err
		}
		base, err := s.driverStmt.QueryContext(ctx, args)
		if err != nil {
			return struct{}{}, err
		}
		dr, ok := base.(driverRows)
		if !ok {
			return struct{}{}, errors.Join(fmt.Errorf("%w: go-sqlite3's rows are not what they were", ErrUnsupported), base.Close())
		}
		*r = rows{driverRows: dr, conn: s.conn, ctx: ctx}
		return struct{}{}, r.first()
	})
	if err != nil {
		if r.driverRows != nil {
			_ = r.Close() // the error is that of the first step
		}
		return nil, err
	}
	s.conn.open = append(s.conn.open, r)
	return r, nil
}

// lacks returns an error if a parameter that has a name has no argument. To SQLite it would be NULL, as would be one whose name is misspelled. Arguments that the
// statement doesn't use are ignored: a program may have the same ones for several statements.
func (s *stmt) lacks(args []driver.NamedValue) error {
	if s.driverStmt.NumInput() >= 0 {
		return nil // no parameter has a name, and database/sql has counted the arguments
	}
	named := slices.IndexFunc(args, func(a driver.NamedValue) bool { return a.Name != "" })
	if named < 0 {
		named = len(args)
	}
	for id := named + 1; id <= s.BindCount(); id++ { // SQLite takes as long for a name as there are names before it
		name := s.BindName(id)
		if name != "" && !slices.ContainsFunc(args[named:], func(a driver.NamedValue) bool {
			return a.Name == "" && a.Ordinal == id || strings.IndexByte(":@$", name[0]) >= 0 && a.Name == name[1:]
		}) {
			return fmt.Errorf("vfs: the parameter %s has no argument", name)
		}
	}
	return nil
}

// nilIsNull makes a nil []byte NULL, as in other drivers: to go-sqlite3 it is an empty BLOB.
func nilIsNull(args []driver.NamedValue) {
	for i, a := range args {
		if b, ok := a.Value.([]byte); ok && b == nil {
			args[i].Value = nil
		}
	}
}

// nothing says whether s was prepared from a text without SQL. Then SQLite has
// no statement, and go-sqlite3's driver one that panics.
func nothing(s driverStmt) (is bool) {
	defer func() { is = recover() != nil }()
	s.Conn()
	return false
}

// An emptyStmt is a text without SQL, such as a comment. It does nothing, and
// returns neither columns nor rows.
type emptyStmt struct{}

// NumInput is driver.Stmt's.
func (emptyStmt) NumInput() int { return 0 }

// Close is driver.Stmt's.
func (emptyStmt) Close() error { return nil }

// Exec is driver.Stmt's.
func (emptyStmt) Exec([]driver.Value) (driver.Result, error) { return result{}, nil }

// Query is driver.Stmt's.
func (emptyStmt) Query([]driver.Value) (driver.Rows, error) { return emptyRows{}, nil }

type emptyRows struct{}

// Columns is driver.Rows's.
func (emptyRows) Columns() []string { return nil }

// Next is driver.Rows's.
func (emptyRows) Next([]driver.Value) error { return io.EOF }

// Close is driver.Rows's.
func (emptyRows) Close() error { return nil }

// A result is what the last statement of a text did.
type result struct{ id, changed int64 }

// LastInsertId is driver.Result's.
func (r result) LastInsertId() (int64, error) { return r.id, nil }

// RowsAffected is driver.Result's.
func (r result) RowsAffected() (int64, error) { return r.changed, nil }
