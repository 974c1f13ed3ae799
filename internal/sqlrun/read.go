package sqlrun

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/sqlconfine"
	"github.com/greenroomdb/greenroom/internal/sqliteguard"
)

// A Reading is one statement that only reads, with what bounds its answer.
type Reading struct {
	SQL  string
	Args []any // nil, bool, int64, float64 or string, for the parameters in their order
	// Rows is the largest number of rows, and Bytes bounds what their values take, each of them and together.
	Rows, Bytes int
}

// OpenReader is OpenGuest for Read alone: a statement that would change anything is an error, and one that runs hears of its deadline soon: see sqlconfine.Confine.
func OpenReader(ctx context.Context, db *sql.DB) (*Session, error) {
	s := &Session{db: db, guest: true, reader: true}
	return s, s.open(ctx)
}

// ErrRowSize says that the first row has more bytes than Reading.Bytes, or that the statement takes more memory than it may.
var ErrRowSize = errors.New("the statement takes or gives too much")

// Read runs the statement and gives its rows to each, which may keep nothing of them. more says that there are rows beyond the bounds. An error of
// SQLite's is an *Error, and so is ErrRowSize.
func (s *Session) Read(ctx context.Context, r *Reading, each func([]Cell)) (columns []string, more bool, err error) {
	if i := strings.IndexByte(r.SQL, 0); i >= 0 {
		return nil, false, &Error{i, errNUL}
	}
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(ctx))
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked(ctx, v)
		}
		if err != nil {
			err = s.explain(ctx, err)
			for _, bound := range []sqlite3.ErrorCode{sqlite3.NOMEM, sqlite3.FULL, sqlite3.TOOBIG} {
				if errors.Is(err, bound) {
					err = fmt.Errorf("%w: %w", ErrRowSize, err)
					break
				}
			}
			err = &Error{0, err}
		}
	}()
	s.conn.Limit(sqlite3.LIMIT_LENGTH, max(r.Bytes, len(r.SQL)))
	stmt, err := s.prepareOne(r)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if cerr := stmt.Close(); err == nil { // else it is the same
			err = cerr
		}
	}()
	n := stmt.ColumnCount()
	for i := range n {
		columns = append(columns, stmt.ColumnName(i))
	}
	left := r.Bytes
	for rows := 0; stmt.Step(); rows++ {
		size := rowSize(stmt, n)
		if size > left && rows == 0 {
			return nil, false, fmt.Errorf("%w: it has more than %d bytes", ErrRowSize, r.Bytes)
		}
		if rows == r.Rows || size > left {
			return columns, true, nil
		}
		left -= size
		each(s.row(stmt, n))
	}
	return columns, false, stmt.Err()
}

var errNUL = errors.New("a NUL byte in SQL, which would end there for SQLite")

// prepareOne returns the only statement of r, with its arguments.
func (s *Session) prepareOne(r *Reading) (*sqlite3.Stmt, error) {
	stmt, tail, err := sqliteguard.Prepare(s.conn, r.SQL)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return nil, errors.New("there is no statement")
	}
	second, _, err := sqliteguard.Prepare(s.conn, tail)
	if second != nil {
		err = errors.Join(errors.New("there is more than one statement"), second.Close())
	}
	if err == nil && !stmt.ReadOnly() {
		err = errReads
	}
	if err == nil {
		err = s.bounded(stmt, r.SQL)
	}
	if err == nil && stmt.BindCount() != len(r.Args) {
		err = fmt.Errorf("the statement has %d parameters, and there are %d arguments", stmt.BindCount(), len(r.Args))
	}
	for i := 0; i < len(r.Args) && err == nil; i++ {
		err = bind(stmt, i+1, r.Args[i])
	}
	if err != nil {
		return nil, errors.Join(err, stmt.Close())
	}
	return stmt, nil
}

// explains matches statements whose program only lists that of another one.
var explains = regexp.MustCompile(Beginning + `explain\b`)

// bounded returns an error if the program of stmt, which text is, may not hear of its deadline in time.
func (s *Session) bounded(stmt *sqlite3.Stmt, text string) (err error) {
	if sqlconfine.Small(stmt) || explains.MatchString(text) {
		return nil
	}
	program, _, err := sqliteguard.Prepare(s.conn, "EXPLAIN "+text)
	if err != nil {
		return err
	}
	var t sqlconfine.Tally
	for program.Step() { // addr, opcode, p1, p2, p3, p4
		t.Add(program.ColumnInt(0), program.ColumnInt(3), program.ColumnText(1), program.ColumnText(5))
	}
	if err = program.Close(); err == nil && t.Cost() > sqlconfine.MaxCost {
		err = fmt.Errorf("the statement has a cost of %d, and it may have %d: it has too many operations with values; json_each reads a long list", t.Cost(), sqlconfine.MaxCost)
	}
	return err
}

// bind sets a parameter of stmt.
func bind(stmt *sqlite3.Stmt, param int, arg any) error {
	switch v := arg.(type) {
	case nil:
		return stmt.BindNull(param)
	case bool:
		return stmt.BindBool(param, v)
	case int64:
		return stmt.BindInt64(param, v)
	case float64:
		return stmt.BindFloat(param, v)
	case string:
		return stmt.BindText(param, v)
	case []byte:
		return stmt.BindBlob(param, v)
	}
	return fmt.Errorf("argument %d is neither null, a boolean, a number, a text nor a blob", param)
}

// rowSize is about how many bytes the current row takes, which it doesn't copy.
func rowSize(stmt *sqlite3.Stmt, n int) (size int) {
	for i := range n {
		if size += 8; stmt.ColumnType(i) == sqlite3.TEXT || stmt.ColumnType(i) == sqlite3.BLOB {
			size += len(stmt.ColumnRawBlob(i))
		}
	}
	return size
}

// errReads says what a reader may do.
var errReads = errors.New("only what reads is run here: SELECT, VALUES, WITH, EXPLAIN, and PRAGMA where it asks for something; and not snippet(), which may take too long")

// asking are the PRAGMAs that take an argument and only read.
var asking = []string{
	"foreign_key_check", "foreign_key_list", "index_info", "index_list", "index_xinfo", "integrity_check", "quick_check", "table_info", "table_list", "table_xinfo",
}

// onlyReads denies what changes the connection, and files. That the database isn't changed the statement says.
//
// https://sqlite.org/c3ref/c_alter_table.html
func onlyReads(action sqlite3.AuthorizerActionCode, name, arg, _, _ string) sqlite3.AuthorizerReturnCode {
	switch action {
	case sqlite3.AUTH_FUNCTION:
		// FTS5's own, which takes the square of the matches of a document, and hears of no deadline meanwhile.
		if strings.EqualFold(arg, "snippet") {
			return sqlite3.AUTH_DENY
		}
	case sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH, sqlite3.AUTH_TRANSACTION, sqlite3.AUTH_SAVEPOINT:
		return sqlite3.AUTH_DENY
	case sqlite3.AUTH_PRAGMA:
		if arg != "" && !slices.Contains(asking, strings.ToLower(name)) {
			return sqlite3.AUTH_DENY
		}
	}
	return sqlite3.AUTH_OK
}
