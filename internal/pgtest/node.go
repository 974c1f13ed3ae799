//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A Node is one server with its data.
type Node struct{ *pglocal.Node }

// find looks for the server's programs, or skips the test.
func find(t testing.TB) *pglocal.Programs {
	t.Helper()
	p, err := pglocal.Search()
	switch {
	case err == nil:
		return p
	case os.Getenv(require) == "1":
		t.Fatalf("%v, and %s=1", err, require)
	default:
		t.Skipf("needs a PostgreSQL server: %v", err)
	}
	return nil
}

// must fails the test if err is not nil.
var must = testkit.Must

// Start starts a server that isn't running, and waits until it takes connections.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	must(t, n.Node.Start())
}

// Kill ends every process of the server with SIGKILL, all at one moment.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	must(t, n.Node.Kill())
}

// KillBackend ends one process that serves a client with SIGKILL, which has the server
// recover, and waits for that.
func (n *Node) KillBackend(t testing.TB) {
	t.Helper()
	must(t, n.Node.KillBackend())
}

// Restart ends the server in good order and starts it again.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	must(t, n.Node.Restart())
}

// Shell runs a script of the shell to its end, as the user that the server runs as and with the
// server's programs in its PATH. It returns what the script wrote; the test ends if a command fails.
func (n *Node) Shell(t testing.TB, script string) string {
	t.Helper()
	out, err := n.Node.Shell(script)
	must(t, err)
	return out
}

// Beside returns another server, with n's programs and settings, whose data are beside n's. It has
// none yet, and isn't started. It ends with the test.
func (n *Node) Beside(t testing.TB, name string) *Node {
	t.Helper()
	local, err := n.Node.Beside(name)
	must(t, err)
	t.Cleanup(func() {
		if err := local.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &Node{local}
}

// SQL runs a query as the superuser and returns its rows as lines, columns
// separated by "|".
func (n *Node) SQL(t testing.TB, query string) string {
	t.Helper()
	out, err := n.Node.SQL(query)
	must(t, err)
	return out
}

// schemas counts those of Schema.
var schemas atomic.Int64

// Schema returns the name of a schema that no other test uses. It isn't dropped: every server
// here is temporary.
func (n *Node) Schema() string {
	return fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
}
