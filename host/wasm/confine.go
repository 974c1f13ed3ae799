package wasm

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/sqlconfine"
	"github.com/greenroomdb/greenroom/vfs"
)

// What modules have of SQLite. docs/wasm.md has the same lists, and says what else is
// bounded.

// allowedModules are those of SQLite's tables that are functions. The ones of PRAGMAs are
// as these are.
var allowedModules = []string{"generate_series", "json_each", "json_tree", "jsonb_each", "jsonb_tree"}

// allowedCollations are SQLite's.
var allowedCollations = []string{"BINARY", "NOCASE", "RTRIM", "time", "uint"}

// allowedPragmas are those that are there, and whether with a value that changes
// something. What these change is in the database, or over with the transaction.
var allowedPragmas = func() map[string]bool {
	all := map[string]bool{"application_id": true, "defer_foreign_keys": true, "foreign_keys": true, "user_version": true}
	for name := range strings.FieldsSeq(`collation_list compile_options data_version database_list encoding freelist_count
		function_list greenroom_stats module_list page_count page_size pragma_list schema_version`) {
		all[name] = false
	}
	for name := range strings.FieldsSeq(`foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check
		optimize quick_check table_info table_list table_xinfo`) { // which take a name, or a number
		all[name] = true
	}
	return all
}()

// confine gives a connection no more than modules may have. What the program itself adds
// behind it, functions for instance, modules have as well.
func (m *Module) confine(c *sqlite3.Conn) error {
	c.Limit(sqlite3.LIMIT_LENGTH, m.opts.MaxBytes)
	// No statistics by which compiling would have to call functions.
	err := c.Exec("PRAGMA analysis_limit=1000")
	if err == nil {
		_, err = c.Config(sqlite3.DBCONFIG_DEFENSIVE, true)
	}
	return errors.Join(err, sqlconfine.Confine(c, "modules don't have the function %s"),
		c.SetAuthorizer(func(action sqlite3.AuthorizerActionCode, name, value, schema, _ string) sqlite3.AuthorizerReturnCode {
			s, guest := c.GetInterrupt().Value(statementKey{}).(*statement)
			if !guest {
				return sqlite3.AUTH_OK // the host's own, or the program's
			}
			s.conn = c
			if what := refused(action, name, value, schema); what != "" {
				s.refuse(what)
				return sqlite3.AUTH_DENY
			}
			return sqlite3.AUTH_OK
		}))
}

// refused returns what a statement wants to do and must not, "" if it may.
func refused(action sqlite3.AuthorizerActionCode, name, value, schema string) string {
	switch action {
	case sqlite3.AUTH_PRAGMA:
		name = strings.ToLower(name)
		takes, known := allowedPragmas[name]
		switch {
		case !known:
			return "PRAGMA " + name
		case value != "" && !takes:
			return "PRAGMA " + name + " with a value"
		}
	case sqlite3.AUTH_INSERT:
		if schema == "temp" { // what is made there is entered first; it would outlive the turn, and be in no quota
			return "what is TEMP"
		}
	case sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH, sqlite3.AUTH_TRANSACTION, sqlite3.AUTH_SAVEPOINT:
		return "statements about other files and transactions" // which verb refuses, too
	}
	return ""
}

// A statement is one of a module's, which is in the context in which SQLite compiles and
// runs it.
type statement struct {
	*sql.Stmt
	args    []any
	ctx     context.Context
	conn    *sqlite3.Conn // that has compiled it
	refused error         // why it must not run
}

// statementKey is the key of a statement in contexts.
type statementKey struct{}

// refuse has the statement fail.
func (s *statement) refuse(what string) {
	s.refused = &host.Error{Code: errQuery.Code, Message: "modules don't have " + what}
}

// bounded returns an error if the program of s, which query is, costs too much.
func (s *statement) bounded(tx *vfs.Tx, query string) (err error) {
	if s.conn == nil {
		return nil // the authorizer was never called: there is nothing to bound
	}
	var last *sqlite3.Stmt
	for last = range s.conn.Stmts() {
	}
	if last == nil || sqlconfine.Small(last) {
		return nil
	}
	rows, err := tx.QueryContext(s.ctx, "EXPLAIN "+query, s.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var t sqlconfine.Tally
	for rows.Next() {
		var addr, p2 int
		var op string
		var p4 sql.NullString
		var other any
		if err := rows.Scan(&addr, &op, &other, &p2, &other, &p4, &other, &other); err != nil {
			return err
		}
		t.Add(addr, p2, op, p4.String)
	}
	if cost := t.Cost(); cost > sqlconfine.MaxCost {
		s.refuse(fmt.Sprintf("statements of a cost of more than %d, and this one has %d", sqlconfine.MaxCost, cost))
		return s.refused
	}
	return rows.Err()
}
