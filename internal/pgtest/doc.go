// Package pgtest gives tests PostgreSQL servers: one node, or three with synchronous
// replication, that can be killed, brought back and replaced. They are those of
// pglocal.
//
// Only tests import it. A machine without the server's programs skips the tests that
// want one; where the variable that require names says so, that is a failure instead.
package pgtest

// require is the name of the variable that makes a missing server a failure of the
// test that wants one, if it is 1.
const require = "GREENROOM_REQUIRE_POSTGRES"
