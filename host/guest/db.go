package guest

import (
	"fmt"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// DB is the transaction of the turn in the actor's database. What is executed in it lands
// with everything else that the turn writes, and is seen by the turn at once.
type DB struct{}

// DB returns the transaction of the turn, which begins with its first statement.
func (c *Context) DB() DB { return DB{} }

// A Result is what a statement has done.
type Result struct{ RowsAffected, LastInsertID int64 }

// Exec executes one statement. Arguments are nil, bools, integers, floats, texts, bytes
// and times. BEGIN, COMMIT and ROLLBACK are the host's, and nothing may stand before the
// first word, a comment neither.
//
// An *Error with the code "sql" has the text of SQLite's.
func (DB) Exec(query string, args ...any) (Result, error) {
	s, err := statement(query, args)
	if err != nil {
		return Result{}, err
	}
	var r abi.Effect
	err = call(sqlExec, s, &r)
	return Result{int64(r.Changes), int64(r.LastID)}, err
}

func statement(query string, args []any) (s abi.Statement, err error) {
	s = abi.Statement{Query: query, Args: make([]abi.Raw, len(args))}
	for i, v := range args {
		if s.Args[i], err = encode(v); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Rows are what a statement has found: all rows, which must fit into one result of the
// host (a megabyte, unless it says otherwise).
type Rows struct {
	Columns []string
	rows    [][]abi.Raw
	row     []abi.Raw
}

// Query executes one statement as Exec does, and returns its rows.
func (DB) Query(query string, args ...any) (*Rows, error) {
	s, err := statement(query, args)
	if err != nil {
		return nil, err
	}
	var r abi.Rows
	if err := call(sqlQuery, s, &r); err != nil {
		return nil, err
	}
	return &Rows{Columns: r.Columns, rows: r.Rows}, nil
}

// ErrNoRows: a statement has found nothing.
var ErrNoRows = &Error{Code: "no_rows", Message: "There is no such row."}

// QueryRow scans the first row of a statement's result into dest; ErrNoRows if the result
// is empty.
func (d DB) QueryRow(query string, args []any, dest ...any) error {
	rows, err := d.Query(query, args...)
	if err != nil {
		return err
	}
	if !rows.Next() {
		return ErrNoRows
	}
	return rows.Scan(dest...)
}

// Len returns how many rows Next has not gone over yet.
func (r *Rows) Len() int { return len(r.rows) }

// Next goes to the next row, and says whether there is one.
func (r *Rows) Next() bool {
	if len(r.rows) == 0 {
		return false
	}
	r.row, r.rows = r.rows[0], r.rows[1:]
	return true
}

// Scan decodes the row into what dest points to. NULL leaves it as it is, or sets a
// pointer to nil.
func (r *Rows) Scan(dest ...any) error {
	if len(dest) != len(r.row) {
		return fmt.Errorf("guest: %d values are scanned into %d", len(r.row), len(dest))
	}
	for i, v := range r.row {
		if err := Raw(v).Decode(dest[i]); err != nil {
			return err
		}
	}
	return nil
}
