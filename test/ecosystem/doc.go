// Package ecosystem tests Greenroom together with what is written for SQLite and for
// database/sql by others: the extensions of go-sqlite3, query code of the kind that
// generators write, and a migration library. Its examples show how each is used.
//
// It has no code of its own that anybody could import.
package ecosystem
