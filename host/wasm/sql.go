package wasm

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// sqlFunctions are those for the actor's database.
var sqlFunctions = []function{
	{name: "sql_exec", body: with(sqlExec)},
	{name: "sql_query", body: with(sqlQuery)},
}

// statements are what a statement may begin with. The transaction is the host's, and
// nothing else has anything to do with other files: ATTACH and VACUUM INTO would.
var statements = []string{
	"ALTER", "ANALYZE", "CREATE", "DELETE", "DROP", "EXPLAIN", "INSERT", "PRAGMA", "REINDEX", "REPLACE", "SELECT", "UPDATE",
	"VALUES", "WITH",
}

// reads are those of statements that change nothing.
var reads = []string{"EXPLAIN", "SELECT", "VALUES"}

// verb returns the word that a statement begins with. What SQLite would skip before it
// besides spaces, comments for instance, is not skipped: it can't hide anything then.
func verb(query string) string {
	query = strings.TrimLeft(query, " \t\r\n\f")
	end := strings.IndexFunc(query, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(query)
	}
	return strings.ToUpper(query[:end])
}

// prepare prepares one statement, in the transaction of the turn.
func (c *call) prepare(q *abi.Statement) (*statement, error) {
	word := verb(q.Query)
	if !slices.Contains(statements, word) || strings.ContainsRune(q.Query, 0) {
		return nil, errQuery
	}
	if !slices.Contains(reads, word) {
		c.wrote = true
	}
	args, err := sqlArgs(q.Args)
	if err != nil {
		return nil, err
	}
	tx, err := c.host.SQL()
	if err != nil {
		return nil, err
	}
	if c.tx = tx; c.rolledBack {
		return nil, errTxOver
	}
	s := &statement{args: args}
	s.ctx = context.WithValue(c.ctx, statementKey{}, s)
	// A text with more than one statement can't be prepared.
	if s.Stmt, err = tx.PrepareAnew(s.ctx, q.Query); err != nil {
		return nil, c.sqlFailed(s, err)
	}
	if word == "EXPLAIN" {
		return s, nil
	}
	if err := s.bounded(tx, q.Query); err != nil {
		return nil, errors.Join(c.sqlFailed(s, err), s.Close())
	}
	return s, nil
}

// sqlFailed marks an error as one of the statement's. After one the transaction may be
// over: INSERT OR ROLLBACK does that, or a trigger. The turn can't land then, and what
// came next would land by itself; so nothing does.
func (c *call) sqlFailed(s *statement, err error) error {
	if !c.rolledBack {
		// In a transaction there can't begin another one.
		_, begun := c.tx.ExecContext(context.WithoutCancel(c.ctx), "BEGIN")
		c.rolledBack = begun == nil
	}
	if s.refused != nil {
		return s.refused
	}
	return &sqlError{err}
}

// sqlArgs returns the values of parameters.
func sqlArgs(raw []abi.Raw) ([]any, error) {
	args := make([]any, len(raw))
	for i, r := range raw {
		if err := r.Decode(&args[i]); err != nil {
			return nil, badArgument(err)
		}
		switch args[i].(type) {
		case nil, bool, int64, float64, string, []byte, time.Time:
		default:
			return nil, badArgument(errors.New("a parameter is of a type that SQL doesn't have"))
		}
	}
	return args, nil
}

func sqlExec(c *call, q *abi.Statement) (_ any, err error) {
	s, err := c.prepare(q)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := s.ExecContext(s.ctx, s.args...)
	if err != nil {
		return nil, c.sqlFailed(s, err)
	}
	changes, err := r.RowsAffected()
	if err != nil {
		return nil, err
	}
	id, err := r.LastInsertId()
	return abi.Effect{Changes: abi.Int(changes), LastID: abi.Int(id)}, err
}

func sqlQuery(c *call, q *abi.Statement) (_ any, err error) {
	s, err := c.prepare(q)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := s.QueryContext(s.ctx, s.args...)
	if err != nil {
		return nil, c.sqlFailed(s, err)
	}
	found, err := c.readRows(rows)
	if closed := rows.Close(); err == nil {
		err = closed
	}
	if failed := rows.Err(); failed != nil {
		err = c.sqlFailed(s, failed)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// readRows reads all rows, if they fit into a result.
func (c *call) readRows(rows *sql.Rows) (*abi.Rows, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	found := &abi.Rows{Columns: columns, Rows: [][]abi.Raw{}}
	values, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	room := c.module.opts.MaxBytes
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		row := make([]abi.Raw, len(values))
		for i, v := range values {
			if row[i], err = abi.Encode(v); err != nil {
				return nil, badArgument(err) // an infinity: the statement should say otherwise
			}
			room -= len(row[i])
		}
		if room -= len(row); room < 0 {
			return nil, tooLarge("what the statement finds", c.module.opts.MaxBytes)
		}
		found.Rows = append(found.Rows, row)
	}
	return found, nil
}
