//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// Start starts a server of one node, with settings "name=value" added to its
// command line. It ends with the test.
func Start(t testing.TB, conf ...string) *Node {
	t.Helper()
	p := find(t)
	dir, err := p.tempDir()
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(p, dir, "n1", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(n.Stop(), os.RemoveAll(dir)); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	if err := n.initialize(); err != nil {
		t.Fatal(err)
	}
	n.Start(t)
	return n
}

// schemas counts those of Schema.
var schemas atomic.Int64

// Process returns the server of the whole process, started at the first call; it
// doesn't wait for its disk (fsync=off). It ends with the process, and its data with
// it. It is for who has no test at hand; see Shared.
var Process = sync.OnceValues(func() (*Node, error) {
	p, err := search()
	if err != nil {
		return nil, err
	}
	dir, err := p.tempDir()
	if err != nil {
		return nil, err
	}
	n, err := newNode(p, dir, "n1", []string{
		"fsync=off", "full_page_writes=off", "checkpoint_timeout=1h", "max_wal_size=2GB",
		"max_connections=1000", "max_locks_per_transaction=256",
	})
	if err != nil {
		return nil, err
	}
	n.temporary = true
	if err := n.initialize(); err != nil {
		return nil, err
	}
	return n, n.start()
})

// Shared returns the server of the whole process, or skips the test as Start does.
func Shared(t testing.TB) *Node {
	t.Helper()
	find(t)
	n, err := Process()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Schema returns the name of a schema that no other test uses; what is there when
// the test ends is dropped, and who still uses it is disconnected.
func (n *Node) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() {
		if n.keeper == nil {
			return
		}
		n.SQL(t, fmt.Sprintf(`SET client_min_messages = warning;
			SELECT pg_terminate_backend(l.pid, 10000) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
			WHERE c.relnamespace = to_regnamespace('%[1]s') AND l.pid <> pg_backend_pid();
			DROP SCHEMA IF EXISTS %[1]s CASCADE`, name))
	})
	return name
}
