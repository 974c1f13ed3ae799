package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/sqliteguard"
	"github.com/greenroomdb/greenroom/vfs"
)

// A session runs SQL on one connection and writes what comes of it.
type session struct {
	db     *sql.DB
	pooled *sql.Conn
	below  sqliteConn
	conn   *sqlite3.Conn
	out    *bufio.Writer
	layout layout
	// changed is told how many rows a statement has changed that returns none; nil is not.
	changed func(rows int64)
	looks   bool // it ends before a statement that writes or asks for rows: see looked

	printed int // rows, since it was set to 0
	cells   []cell
	bytes   []byte // what cells are made of
}

// changes matches statements that change rows. One that begins with a WITH and has no columns does.
var changes = regexp.MustCompile(beginning + `(insert|update|delete|replace|with)\b`)

// beginning matches what may stand before the first word of a statement.
const beginning = `(?is)^(\s|--[^\n]*\n|/\*.*?\*/)*`

// withSession runs fn with a connection of db, on which nothing else runs. What
// fn leaves uncommitted is rolled back.
func withSession(ctx context.Context, db *sql.DB, out *bufio.Writer, fn func(*session) error) error {
	s := &session{db: db, out: out}
	err := s.open(ctx)
	if err == nil {
		err = fn(s)
	}
	if s.pooled != nil {
		err = errors.Join(err, s.pooled.Close())
	}
	return err
}

// open takes a connection of the pool for the session.
func (s *session) open(ctx context.Context) (err error) {
	if s.pooled, err = s.db.Conn(ctx); err != nil {
		return err
	}
	return s.pooled.Raw(func(c any) error {
		s.below = c.(sqliteConn)
		s.conn = s.below.Raw()
		return nil
	})
}

// run runs the statements of p, of which there is one, or none if it is all
// comment. After each one its rows are written and flushed. ran counts those that
// began. An error of SQLite's is a *statementError, in the piece alone; any other is that of out.
func (s *session) run(ctx context.Context, p piece) (ran int, err error) {
	if i := strings.IndexByte(p.text, 0); i >= 0 {
		return 1, p.failed(i, errors.New("a NUL byte in SQL, which would end there for SQLite"))
	}
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(ctx))
	offset := 0
	defer func() {
		if v := recover(); v != nil {
			ran, err = max(ran, 1), p.failed(offset, s.panicked(ctx, v))
		}
	}()
	for offset < len(p.text) {
		stmt, tail, err := sqliteguard.Prepare(s.conn, p.text[offset:])
		if err != nil {
			at := offset
			if e := (*sqlite3.Error)(nil); errors.As(err, &e) && e.SQL() != "" {
				at = len(p.text) - len(e.SQL())
			}
			return ran + 1, p.failed(at, s.explain(ctx, err))
		}
		if stmt == nil {
			break
		}
		ran++
		if s.looks {
			err = looked(stmt)
		}
		if err == nil {
			err = s.rows(stmt)
		}
		if err == nil && s.changed != nil && stmt.ColumnCount() == 0 && changes.MatchString(stmt.SQL()) {
			s.changed(s.conn.Changes())
		}
		if cerr := stmt.Close(); err == nil {
			err = cerr
		}
		if ferr := s.out.Flush(); ferr != nil {
			return ran, ferr
		}
		if err != nil {
			return ran, p.failed(offset, s.explain(ctx, err))
		}
		offset = len(p.text) - len(tail)
	}
	return ran, nil
}

// panicked returns the error for a panic with v of go-sqlite3. If SQLite has gone on, as
// after any error, so may the session. Otherwise it gets another connection.
func (s *session) panicked(ctx context.Context, v any) error {
	why := sqliteguard.Why(v)
	if why == sqliteguard.TooDeep || why == sqliteguard.Unknown {
		err := s.below.Lose(v)
		return errors.Join(err, s.pooled.Close(), s.open(context.WithoutCancel(ctx)))
	}
	s.closeStatements()
	if why == sqliteguard.LongName {
		return errLongName
	}
	return sqlite3.NOMEM
}

var errLongName = errors.New("the name of a column is longer than 1,000,000 bytes: give it one with AS")

// closeStatements closes the statements that are open.
func (s *session) closeStatements() {
	for _, stmt := range slices.Collect(s.conn.Stmts()) {
		func() {
			defer func() { _ = recover() }() // Close says it again, when it is done
			_ = stmt.Close()
		}()
	}
}

// rows runs stmt to its end. A statement without columns prints nothing.
func (s *session) rows(stmt *sqlite3.Stmt) error {
	n := stmt.ColumnCount()
	if n == 0 {
		return stmt.Exec()
	}
	columns := make([]string, n)
	for i := range columns {
		columns[i] = stmt.ColumnName(i)
	}
	p := s.layout.printer(s.out)
	more := stmt.Step()
	if !more && stmt.Err() != nil {
		return stmt.Err()
	}
	p.begin(columns)
	for ; more; more = stmt.Step() {
		p.row(s.row(stmt, n))
		s.printed++
	}
	p.end()
	return stmt.Err()
}

// row reads the current row. Numbers get the text that SQLite converts them to.
// The cells are valid until the next call.
func (s *session) row(stmt *sqlite3.Stmt, n int) []cell {
	s.cells, s.bytes = s.cells[:0], s.bytes[:0]
	for i := range n {
		c := cell{kind: cellKind(stmt.ColumnType(i) % sqlite3.NULL)} // before a conversion, which may change it
		if c.kind == cellReal {
			c.real = stmt.ColumnFloat(i)
		}
		from := len(s.bytes)
		if c.kind == cellBlob {
			s.bytes = stmt.ColumnBlob(i, s.bytes)
		} else {
			s.bytes = append(s.bytes, stmt.ColumnRawText(i)...)
		}
		c.text = s.bytes[from:len(s.bytes):len(s.bytes)]
		s.cells = append(s.cells, c)
	}
	return s.cells
}

// lines writes the rows of a query as a list, and returns how many there are.
func (s *session) lines(ctx context.Context, query string) (n int, err error) {
	before := s.layout
	defer func() { s.layout = before }()
	s.layout, s.printed = layout{mode: modeList, tty: before.tty}, 0
	_, err = s.run(ctx, piece{text: query})
	if at := (*statementError)(nil); errors.As(err, &at) {
		err = trimmed(at.err) // where in the query is nothing to the user
	}
	return s.printed, err
}

// inTransaction says whether a BEGIN waits for its COMMIT.
func (s *session) inTransaction() bool { return !s.conn.GetAutocommit() }

// rollback gives up an open transaction.
func (s *session) rollback() error {
	// Also when it is an interrupt that ended the session.
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(context.Background()))
	return s.conn.Exec("ROLLBACK")
}

// explain adds to an error what SQLite could not say about it: the reason that
// Greenroom's storage had, that it was interrupted, or that a name is no file's.
func (s *session) explain(ctx context.Context, err error) error {
	if errors.Is(err, sqlite3.INTERRUPT) && ctx.Err() != nil {
		return errInterrupted
	}
	err = withCause(err, s.below.Cause)
	if errors.Is(err, vfs.ErrNotMounted) {
		return say(err, "%v (a file of the operating system is written 'file:NAME?vfs=os')", trimmed(err))
	}
	return err
}

// withCause joins an error of SQLite's with the reason behind it, where the code
// is one that storage gives and SQLite did not keep the reason.
func withCause(err error, cause func() error) error {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) || vfs.Cause(err) != nil {
		return err
	}
	switch code {
	case sqlite3.FULL, sqlite3.IOERR, sqlite3.CORRUPT, sqlite3.CANTOPEN:
		if c := cause(); c != nil {
			return fmt.Errorf("%w: %w", err, c)
		}
	}
	return err
}
