//go:build unix

package pgtest

import (
	"errors"
	"os"
	"testing"

	"github.com/greenroomdb/greenroom/internal/memdir"
	"github.com/greenroomdb/greenroom/internal/pglocal"
)

// Start starts a server of one node, with settings "name=value" added to its
// command line. It ends with the test.
func Start(t testing.TB, conf ...string) *Node {
	t.Helper()
	p := find(t)
	dir, err := p.TempDir(memdir.Find())
	must(t, err)
	n, err := p.New(dir, "n1", conf)
	must(t, err)
	t.Cleanup(func() {
		if err := errors.Join(n.Stop(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	must(t, n.Initialize())
	must(t, n.Start())
	return &Node{n}
}

// Shared returns the server that all tests of the process share, started at the first
// call; it doesn't wait for its disk. It ends with the process.
func Shared(t testing.TB) *Node {
	t.Helper()
	find(t)
	n, err := pglocal.Process()
	must(t, err)
	return &Node{n}
}
