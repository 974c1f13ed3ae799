//go:build unix

package pglocal

import (
	"errors"
	"os"
	"sync"

	"github.com/greenroomdb/greenroom/internal/memdir"
)

// Temporary starts a server below the folder dir, the system's temporary one if that is
// "", with settings "name=value" added to its command line. Its data go when it ends,
// with Stop or with the process.
func Temporary(dir string, conf ...string) (*Node, error) {
	p, err := Search()
	if err != nil {
		return nil, err
	}
	own, err := p.TempDir(dir)
	if err != nil {
		return nil, err
	}
	n, err := p.New(own, "n1", conf)
	if err == nil {
		n.temporary = true
		err = n.Initialize()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(own))
	}
	if err := n.Start(); err != nil {
		return nil, errors.Join(err, n.Stop(), os.RemoveAll(own))
	}
	return n, nil
}

// Process returns the one server that all callers in the process share, started at the
// first call. Its data are in memory where that has room, and it doesn't wait for its
// disk (fsync=off).
var Process = sync.OnceValues(func() (*Node, error) {
	return Temporary(memdir.Find(), "fsync=off", "full_page_writes=off", "checkpoint_timeout=1h", "max_wal_size=2GB",
		"max_connections=1000", "max_locks_per_transaction=256")
})
