// Package sqlconfine bounds the time that SQL of others takes on a connection. SQLite looks whether a statement is to end only now and then: a
// function with long values, or a statement with thousands of operations, may go on for minutes behind its deadline. So a
// confined connection offers only functions that take time in proportion to their arguments, and the cost of a statement can be looked at before it runs.
//
// Files, from the top down:
//
//	sqlconfine.go cost.go replaced.go
package sqlconfine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

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

// Functions are those of SQLite's functions that are there. All take time in
// proportion to their arguments, but for those that replaced.go replaces. Not here are
// decimal_mul and json_patch, for instance, which take the square of it, and json_pretty,
// which takes a document's depth times its length.
var Functions = strings.Fields(`
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

// A sqlFunction is a function of SQLite.
type sqlFunction struct {
	name string
	args int
}

// refusedFunctions are those that every connection has, and a confined one doesn't.
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
		if name := s.ColumnText(0); !slices.Contains(Functions, name) {
			all = append(all, sqlFunction{name, s.ColumnInt(1)})
		}
	}
	return all, s.Close()
})

// Confine bounds the statements of c, replaces the functions that take too long, and puts an error in the place of each that isn't of Functions: reason, a format with the function's
// name. What is added to c later isn't confined.
//
// It doesn't do so by an authorizer, which SQLite doesn't ask about what a schema has.
func Confine(c *sqlite3.Conn, reason string) error {
	for what, n := range limits {
		c.Limit(what, n)
	}
	all, err := refusedFunctions()
	for _, f := range all {
		reason := fmt.Errorf(reason, f.name)
		err = errors.Join(err, c.CreateFunction(f.name, f.args, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS,
			func(ctx sqlite3.Context, _ ...sqlite3.Value) { ctx.ResultError(reason) }))
	}
	return errors.Join(err, c.CreateCollation("decimal", nil), replaceFunctions(c))
}
