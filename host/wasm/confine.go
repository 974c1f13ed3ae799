package wasm

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/vfs"
)

// What modules have of SQLite. docs/wasm.md has the same lists, and says what else is
// bounded.

// limits bound statements. What isn't here is as SQLite has it: lower, a table that an
// earlier version of an actor has made could make its schema unreadable.
//
// https://sqlite.org/c3ref/c_limit_attached.html
var limits = map[sqlite3.LimitCategory]int{
	sqlite3.LIMIT_ATTACHED:        0,
	sqlite3.LIMIT_WORKER_THREADS:  0,
	sqlite3.LIMIT_SQL_LENGTH:      64 << 10,
	sqlite3.LIMIT_COMPOUND_SELECT: 100,
	sqlite3.LIMIT_FUNCTION_ARG:    64,
	sqlite3.LIMIT_TRIGGER_DEPTH:   100,
	sqlite3.LIMIT_VDBE_OP:         250_000,
}

// allowedFunctions are those of SQLite's functions that are there. All take time in
// proportion to their arguments, but for those that sqlfunctions.go replaces. Not here are
// decimal_mul and json_patch, for instance, which take the square of it, and json_pretty,
// which takes a document's depth times its length.
var allowedFunctions = strings.Fields(`
	-> ->> abs acos acosh asin asinh atan atan2 atanh avg base64 ceil ceiling changes char coalesce concat concat_ws cos cosh
	count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor format
	glob group_concat hex if ifnull iif instr json json_array json_array_insert json_array_length json_error_position
	json_extract json_group_array json_group_object json_insert json_object json_quote json_remove json_replace
	json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object
	jsonb_insert jsonb_object jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead length like
	likelihood likely ln log log10 log2 lower ltrim max min mod nth_value ntile nullif octet_length percent_rank pi pow power
	printf quote radians random randomblob rank replace round row_number rtrim sign sin sinh soundex sqlite_source_id
	sqlite_version sqrt strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc
	typeof unhex unicode unistr unistr_quote unixepoch unlikely upper zeroblob`)

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
	for what, n := range limits {
		c.Limit(what, n)
	}
	// No statistics by which compiling would have to call functions.
	err := c.Exec("PRAGMA analysis_limit=1000")
	if err == nil {
		_, err = c.Config(sqlite3.DBCONFIG_DEFENSIVE, true)
	}
	return errors.Join(err, refuseFunctions(c), c.CreateCollation("decimal", nil), replaceFunctions(c),
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

// A sqlFunction is a function of SQLite.
type sqlFunction struct {
	name string
	args int
}

// refusedFunctions are those that every connection has, and modules don't.
var refusedFunctions = sync.OnceValues(func() (all []sqlFunction, err error) {
	c, err := sqlite3.Open(":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, _, err := c.Prepare("SELECT DISTINCT name, narg FROM pragma_function_list")
	if err != nil {
		return nil, err
	}
	for s.Step() {
		if name := s.ColumnText(0); !slices.Contains(allowedFunctions, name) {
			all = append(all, sqlFunction{name, s.ColumnInt(1)})
		}
	}
	return all, s.Close()
})

// refuseFunctions puts an error in the place of each function that isn't allowed. It does
// so here and not in the authorizer, which SQLite doesn't ask about what a schema has.
func refuseFunctions(c *sqlite3.Conn) error {
	all, err := refusedFunctions()
	for _, f := range all {
		reason := fmt.Errorf("modules don't have the function %s", f.name)
		err = errors.Join(err, c.CreateFunction(f.name, f.args, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS,
			func(ctx sqlite3.Context, _ ...sqlite3.Value) { ctx.ResultError(reason) }))
	}
	return err
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

// SQLite makes a program of a statement. It looks at the time where that jumps back, but
// not after each operation that takes time in proportion to its values. So there may be
// only so many of those that they take about a second together with the largest values.
//
// https://sqlite.org/opcode.html

// maxCost bounds what a program may cost, where 1 is to copy a value, which takes up to
// half a millisecond for a megabyte, 8 to compare one, and 16 to make a number of one.
const maxCost = 2000

// smallProgram is the size in bytes of programs that aren't looked at. An operation has 24
// bytes; simple statements have two to six KiB.
const smallProgram = 8 << 10

// anyArgs is how many arguments a function is taken to have that may have any number:
// EXPLAIN doesn't tell.
const anyArgs = 5

// costs are those of operations that aren't 1.
var costs = func() map[string]int {
	all := map[string]int{}
	for cost, ops := range map[int]string{
		0: `BeginSubrtn Close Copy EndCoroutine Explain Gosub Goto Halt Init InitCoroutine Int64 Integer Move Next Noop Null Once Real
			ResultRow Return Rewind SCopy String String8 Trace Transaction Variable Yield`,
		8: `AggFinal AggStep AggStep1 AggValue And BitNot Cast Compare ElseEq Eq Function Ge Gt If IfNot IsTrue Le Lt MustBeInt Ne Not
			Or PureFunc`,
		16: `Add BitAnd BitOr Divide Multiply Remainder ShiftLeft ShiftRight Subtract`,
	} {
		for op := range strings.FieldsSeq(ops) {
			all[op] = cost
		}
	}
	return all
}()

// costOf returns what an operation costs; function is what EXPLAIN calls p4.
func costOf(op, function string) int {
	cost, known := costs[op]
	if !known {
		return 1
	}
	if op != "Function" && op != "PureFunc" {
		return cost
	}
	name, rest, _ := strings.Cut(function, "(")
	args, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	if err != nil || args < 1 {
		args = anyArgs
	}
	if strings.HasPrefix(name, "json") || strings.HasPrefix(name, "->") {
		args = max(args, 2) * 3 // a document is parsed, and looked through for each
	}
	return cost * args
}

// A tally is what a program costs, as its operations are read.
type tally struct {
	cost int // since the last of VALUES was passed on
	most int // before that, up to another one
	far  int // to where the operations since then may jump
}

// add adds an operation. p2 is where it jumps to, if it does. A row of VALUES is passed on
// by Yield to a loop, which looks at the time; but some operation may jump beyond that.
func (t *tally) add(addr, p2 int, op string, cost int) {
	t.cost += cost
	switch {
	case op == "Init" || op == "InitCoroutine": // jumps before there is anything to do
	case op != "Yield":
		t.far = max(t.far, p2)
	case t.far <= addr:
		t.most, t.cost = max(t.most, t.cost), 0
	}
}

// bounded returns an error if the program of s, which query is, costs too much.
func (s *statement) bounded(tx *vfs.Tx, query string) (err error) {
	if s.conn == nil {
		return nil // no authorizer was asked: there is no such statement
	}
	var last *sqlite3.Stmt
	for last = range s.conn.Stmts() {
	}
	if last == nil || last.Status(sqlite3.STMTSTATUS_MEMUSED, false) <= smallProgram {
		return nil
	}
	rows, err := tx.QueryContext(s.ctx, "EXPLAIN "+query, s.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var t tally
	for rows.Next() {
		var addr, p2 int
		var op string
		var p4 sql.NullString
		var other any
		if err := rows.Scan(&addr, &op, &other, &p2, &other, &p4, &other, &other); err != nil {
			return err
		}
		t.add(addr, p2, op, costOf(op, p4.String))
	}
	if cost := t.most + t.cost; cost > maxCost {
		s.refuse(fmt.Sprintf("statements of a cost of more than %d, and this one has %d", maxCost, cost))
		return s.refused
	}
	return rows.Err()
}
