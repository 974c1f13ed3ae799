// Package pglocal starts PostgreSQL servers on loopback, in a temporary folder, from
// the server programs that the machine has: for tests, through pgtest, and for
// measurements.
//
// A server ends with the process that started it, however that ends, so that a crash
// leaves none behind. It is nothing to keep data in: everybody on the machine may log
// in.
package pglocal

import "errors"

// ErrMissing: the machine lacks the server program, or a user that may run it.
var ErrMissing = errors.New("pglocal: no PostgreSQL server programs")
