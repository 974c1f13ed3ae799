package vfs

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A driverStmt is what go-sqlite3's statements are to database/sql.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
	Conn() *sqlite3.Conn
	Reset() error
	ClearBindings() error
	BindCount() int
	BindName(param int) string
	counting
}

// A program executes the same few statements again and again, and database/sql closes each
// one behind its execution unless the program has prepared it. So a connection keeps some
// that were closed, for the next caller that prepares the same text: to compile an INSERT, or a SELECT that an index answers, takes
// longer than to execute it. SQLite itself compiles one anew after a change of the schema.
//
// PRAGMAs are not kept, since some take effect when they are compiled.
//
// https://sqlite.org/c3ref/prepare.html
type kept []keptStmt // the one that was closed last is the last

type keptStmt struct {
	query string
	driverStmt
}

const (
	// maxKept bounds the statements of a connection, each of which takes some KB of
	// SQLite's memory.
	maxKept = 16
	// maxKeptText bounds their texts, in bytes. Longer ones are mostly made for one use.
	maxKeptText = 1 << 10
)

// take returns a statement of that text, or nil. It is the caller's.
func (k *kept) take(query string) driverStmt {
	for i, s := range *k {
		if s.query == query {
			*k = slices.Delete(*k, i, i+1)
			return s.driverStmt
		}
	}
	return nil
}

// put takes a statement that is closed, and returns the one that is to be finalized: s if it
// isn't kept, the oldest if there are too many, nil for none.
func (k *kept) put(query string, s driverStmt) driverStmt {
	if !keeps(query) {
		return s
	}
	_ = s.Reset() // the error is that of its last step
	if s.ClearBindings() != nil {
		return s
	}
	*k = append(*k, keptStmt{query, s})
	if len(*k) <= maxKept {
		return nil
	}
	s = (*k)[0].driverStmt
	*k = slices.Delete(*k, 0, 1)
	return s
}

// The statements by which an Update begins and ends its transaction.
const (
	beginUpdate  = "BEGIN IMMEDIATE"
	commitUpdate = "COMMIT"
)

// frames says whether query is one of them.
func frames(query string) bool { return query == beginUpdate || query == commitUpdate }

var keptVerbs = []string{"INSERT", "SELECT", "UPDATE", "DELETE", "REPLACE", "WITH"}

// keeps says whether a statement of that text may be kept, as far as the text says so.
func keeps(query string) bool {
	if len(query) > maxKeptText {
		return false
	}
	for verb := range strings.FieldsSeq(query) {
		return frames(query) || slices.ContainsFunc(keptVerbs, func(kept string) bool { return strings.EqualFold(verb, kept) })
	}
	return false
}

// A counting is a statement that counts what it does.
type counting interface {
	Status(op sqlite3.StmtStatus, reset bool) int
}

// countRows tells the owner of the actor, if it isn't nil, what rows an execution of s has read: those that it returned, or those of its full scans of tables if
// these are more. Rows that an index leads to, and that s doesn't return, aren't counted.
//
// https://sqlite.org/c3ref/c_stmtstatus_counter.html
func countRows(owner *actorstore.Actor, s counting, returned int64) {
	if owner == nil {
		return
	}
	n := returned
	if steps := s.Status(sqlite3.STMTSTATUS_FULLSCAN_STEP, true); steps > 0 {
		n = max(n, int64(steps)+1) // from the first row on
	}
	if n > 0 {
		owner.ReadRows(n)
	}
}
