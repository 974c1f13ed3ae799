// Package sqlrun runs text of SQL on one connection to an actor's database, statement by statement, and gives what these return to
// a Sink: for the shell of the program, and for a process that runs SQL for it.
//
// It cuts nothing up, and prints nothing: that is the shell's.
package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/sqlconfine"
	"github.com/greenroomdb/greenroom/internal/sqliteguard"
	"github.com/greenroomdb/greenroom/vfs"
)

// A Conn is what a connection of an actor's database is below database/sql.
type Conn interface {
	Raw() *sqlite3.Conn
	Cause() error     // as vfs.DB.Cause
	DSN() string      // as vfs.DB.DSN
	Lose(p any) error // after a panic of Raw()'s with p
}

// A Kind is the type of a value, in the order of SQLite's numbers for them, with NULL first.
type Kind byte

// The kinds.
const (
	Null Kind = iota
	Int
	Real
	Text
	Blob
)

// A Cell is one value of a row.
type Cell struct {
	Kind Kind
	Text []byte // as SQLite writes it; the bytes of a blob; nil for NULL
	Real float64
}

// A Sink takes what statements return.
type Sink interface {
	// Begin is called before the rows of a statement that has columns.
	Begin(columns []string)
	// Row may keep nothing of cells.
	Row(cells []Cell)
	// End is called after the last row, also if the statement fails then.
	End()
	// Changed is told how many rows a statement has changed that has no columns.
	Changed(rows int64)
	// Flush is called after each statement. An error ends the run.
	Flush() error
}

// ErrInterrupted: the context ended while a statement ran.
var ErrInterrupted = errors.New("interrupted")

// An Error is that of a statement.
type Error struct {
	Offset int // of the statement, or of what is wrong in it, in the text
	Err    error
}

// Error returns what Err says.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A Session is one connection, on which nothing else runs. It belongs to one goroutine at a time.
type Session struct {
	// Check, if it isn't nil, is asked before each statement.
	Check func(*sqlite3.Stmt) error
	// Before, if it isn't nil, is called before each statement of Run, after Check.
	Before func()

	guest  bool
	reader bool // a guest that only reads

	preparing bool // a statement is compiled, and none runs
	db        *sql.DB
	pooled    *sql.Conn
	below     Conn
	conn      *sqlite3.Conn
	cells     []Cell
	bytes     []byte // what cells are made of
}

// Open takes a connection of db's, which has Conns. The caller closes the Session.
func Open(ctx context.Context, db *sql.DB) (*Session, error) {
	s := &Session{db: db}
	return s, s.open(ctx)
}

// OpenGuest is Open for SQL that comes from another process: no file of this one can be attached, and what the SQL sets on the connection
// is forgotten with it.
func OpenGuest(ctx context.Context, db *sql.DB) (*Session, error) {
	s := &Session{db: db, guest: true}
	return s, s.open(ctx)
}

func (s *Session) open(ctx context.Context) (err error) {
	if s.pooled, err = s.db.Conn(ctx); err != nil {
		return err
	}
	return s.pooled.Raw(func(c any) error {
		s.below = c.(Conn)
		s.conn = s.below.Raw()
		switch {
		case s.reader:
			// A schema may have longer statements than the reader's. One that can't be read is an error of each statement.
			_ = s.conn.Exec("SELECT 1 FROM sqlite_schema LIMIT 1")
			return errors.Join(sqlconfine.Confine(s.conn, "the function %s isn't here, since it may take too long"), s.conn.SetAuthorizer(onlyReads))
		case s.guest:
			return s.conn.SetAuthorizer(s.noFiles)
		}
		return nil
	})
}

// noFiles denies to attach what a URI names, which may be a file of the operating system. Other names are those of the actor's own
// file system. SQLite says none for what isn't a literal, which is denied, too; but also for what VACUUM attaches when it runs.
//
// https://sqlite.org/c3ref/set_authorizer.html, https://sqlite.org/uri.html
func (s *Session) noFiles(action sqlite3.AuthorizerActionCode, file, _, _, _ string) sqlite3.AuthorizerReturnCode {
	if action == sqlite3.AUTH_ATTACH && (strings.HasPrefix(file, "file:") || file == "" && s.preparing) {
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

// Close gives the connection back, or ends that of a guest. What is uncommitted is rolled back.
func (s *Session) Close() error {
	if s.pooled == nil {
		return nil
	}
	if s.guest {
		// The pool closes what is of no use.
		if err := s.pooled.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
			return err
		}
		return nil
	}
	return s.pooled.Close()
}

// changes matches statements that change rows. One that begins with a WITH and has no columns does.
var changes = regexp.MustCompile(Beginning + `(insert|update|delete|replace|with)\b`)

// Beginning is a regular expression for what may stand before the first word of a statement.
const Beginning = `(?is)^(\s|--[^\n]*\n|/\*([^*]|\*+[^*/])*\*+/)*`

// Run runs the statements of text. ran counts those that began. An error of SQLite's is an *Error; any other is that of the sink.
func (s *Session) Run(ctx context.Context, text string, sink Sink) (ran int, err error) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return 1, &Error{i, errNUL}
	}
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(ctx))
	offset := 0
	defer func() {
		if v := recover(); v != nil {
			ran, err = max(ran, 1), &Error{offset, s.panicked(ctx, v)}
		}
	}()
	for offset < len(text) {
		s.preparing = true
		stmt, tail, err := sqliteguard.Prepare(s.conn, text[offset:])
		s.preparing = false
		if err != nil {
			at := offset
			if e := (*sqlite3.Error)(nil); errors.As(err, &e) && e.SQL() != "" {
				at = len(text) - len(e.SQL())
			}
			return ran + 1, &Error{at, s.explain(ctx, err)}
		}
		if stmt == nil {
			break
		}
		ran++
		if s.Check != nil {
			err = s.Check(stmt)
		}
		if err == nil && s.Before != nil {
			s.Before()
		}
		if err == nil {
			err = s.rows(stmt, sink)
		}
		if err == nil && stmt.ColumnCount() == 0 && changes.MatchString(stmt.SQL()) {
			sink.Changed(s.conn.Changes())
		}
		if cerr := stmt.Close(); err == nil {
			err = cerr
		}
		if ferr := sink.Flush(); ferr != nil {
			return ran, ferr
		}
		if err != nil {
			return ran, &Error{offset, s.explain(ctx, err)}
		}
		offset = len(text) - len(tail)
	}
	return ran, nil
}

// RunWith is Run with arguments: of each statement, for its parameters 1, 2 and so on. They are nil, a bool, an int64, a float64, a string or a []byte.
func (s *Session) RunWith(ctx context.Context, text string, args []any, sink Sink) error {
	before := s.Check
	defer func() { s.Check = before }()
	s.Check = func(stmt *sqlite3.Stmt) error {
		if before != nil {
			if err := before(stmt); err != nil {
				return err
			}
		}
		for i, arg := range args {
			if err := bind(stmt, i+1, arg); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := s.Run(ctx, text, sink)
	return err
}

// panicked returns the error for a panic with v of go-sqlite3. If SQLite has gone on, as
// after any error, so may the session. Otherwise it gets another connection.
func (s *Session) panicked(ctx context.Context, v any) error {
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
func (s *Session) closeStatements() {
	for _, stmt := range slices.Collect(s.conn.Stmts()) {
		func() {
			defer func() { _ = recover() }() // Close says it again, when it is done
			_ = stmt.Close()
		}()
	}
}

// rows runs stmt to its end.
func (s *Session) rows(stmt *sqlite3.Stmt, sink Sink) error {
	n := stmt.ColumnCount()
	if n == 0 {
		return stmt.Exec()
	}
	columns := make([]string, n)
	for i := range columns {
		columns[i] = stmt.ColumnName(i)
	}
	more := stmt.Step()
	if !more && stmt.Err() != nil {
		return stmt.Err()
	}
	sink.Begin(columns)
	for ; more; more = stmt.Step() {
		sink.Row(s.row(stmt, n))
	}
	sink.End()
	return stmt.Err()
}

// row reads the current row. Numbers get the text that SQLite converts them to.
// The cells are valid until the next call.
func (s *Session) row(stmt *sqlite3.Stmt, n int) []Cell {
	s.cells, s.bytes = s.cells[:0], s.bytes[:0]
	for i := range n {
		c := Cell{Kind: Kind(stmt.ColumnType(i) % sqlite3.NULL)} // before a conversion, which may change it
		if c.Kind == Real {
			c.Real = stmt.ColumnFloat(i)
		}
		from := len(s.bytes)
		if c.Kind == Blob {
			s.bytes = stmt.ColumnBlob(i, s.bytes)
		} else {
			s.bytes = append(s.bytes, stmt.ColumnRawText(i)...)
		}
		c.Text = s.bytes[from:len(s.bytes):len(s.bytes)]
		s.cells = append(s.cells, c)
	}
	return s.cells
}

// InTransaction reports whether a BEGIN waits for its COMMIT.
func (s *Session) InTransaction() bool { return !s.conn.GetAutocommit() }

// Rollback gives up an open transaction, also after the end of a context.
func (s *Session) Rollback() error {
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(context.Background()))
	return s.conn.Exec("ROLLBACK")
}

// Replace replaces the database by that of src; see Copy.
func (s *Session) Replace(ctx context.Context, src *Source) error {
	return WithCause(Copy(ctx, src.conn, s.below.DSN(), func(int64, int64) {}), s.below.Cause)
}

// Save copies the database as the session sees it to an SQLite file, which is replaced. The copy isn't brought onto stable storage, and is
// of no use if Save fails.
func (s *Session) Save(ctx context.Context, file string) error {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: "_pragma=journal_mode(off)&_pragma=synchronous(off)"}
	return WithCause(Copy(ctx, s.conn, uri.String(), func(int64, int64) {}), s.below.Cause)
}

// explain adds to an error what SQLite could not say about it: the reason that
// Greenroom's storage had, that it was interrupted, or that a name belongs to none of the files.
func (s *Session) explain(ctx context.Context, err error) error {
	if errors.Is(err, sqlite3.INTERRUPT) && ctx.Err() != nil {
		return ErrInterrupted
	}
	if s.reader && errors.Is(err, sqlite3.AUTH) {
		return errReads
	}
	if s.guest && errors.Is(err, sqlite3.AUTH) {
		return errkind.Say(err, "files of the operating system can't be reached while another process has the store open: greenroom export writes the database to one")
	}
	err = WithCause(err, s.below.Cause)
	if errors.Is(err, vfs.ErrNotMounted) {
		return errkind.Say(err, "%s (a file of the operating system is written 'file:NAME?vfs=os')", strings.TrimPrefix(err.Error(), "sqlite3: "))
	}
	return err
}

// WithCause joins an error of SQLite's with the reason behind it, where the code
// is one that storage gives and SQLite did not keep the reason.
func WithCause(err error, cause func() error) error {
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
