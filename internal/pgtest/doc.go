// Package pgtest starts PostgreSQL servers for tests: one node, or three with
// synchronous replication, on loopback and in a temporary folder, from the server
// programs that the machine has.
//
// Only tests import it. Servers end with the test that started them, and with the
// test process however that ends, so that a crashed test leaves none behind. A
// machine without the programs skips the tests that want a server; where the
// variable Require says so, that is a failure instead.
package pgtest

// Require is the name of the variable that makes a missing server a failure of the
// test that wants one, if it is 1.
const Require = "GREENROOM_REQUIRE_POSTGRES"
