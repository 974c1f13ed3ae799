package vfs

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// SQLite's index of the log lies in memory that its connections share, and go-sqlite3
// has that on a file of the operating system. The file is private to one mounted
// database, in a folder of its own, and there only while a log is open: it is a cache
// that SQLite makes anew from the log.
//
// https://sqlite.org/walformat.html#the_wal_index_file_format

// A shmDir is the folder of that file. Its methods are called under the lock of the database, but
// for spoil.
type shmDir struct {
	offered bool // the platform has shared memory
	path    string
	made    bool
}

// init chooses a name in the folder dir, "" for the system's.
func (s *shmDir) init(dir string) {
	if dir == "" {
		dir = os.TempDir()
	}
	s.offered = sqlitevfs.SupportsSharedMemory
	s.path = filepath.Join(dir, "greenroom-shm-"+rand.Text())
}

// open returns the shared memory for one connection, nil without one.
func (s *shmDir) open() sqlitevfs.SharedMemory {
	if !s.offered {
		return nil
	}
	return sqlitevfs.NewSharedMemory(s.file(), sqlitevfs.OPEN_MAIN_DB)
}

func (s *shmDir) file() string { return filepath.Join(s.path, "index") }

// spoil makes SQLite begin with the log again, instead of answering from its caches: for
// a database that has failed. It needs no lock.
func (s *shmDir) spoil() {
	f, err := os.OpenFile(s.file(), os.O_WRONLY, 0)
	if err != nil {
		return // no connection has it open
	}
	defer f.Close()
	_, _ = f.WriteAt(make([]byte, indexHeader), 0) // in vain: then the caches may answer
}

// indexHeader is the length of the two copies of the index's header. Zeros in it say
// that the index isn't made yet.
const indexHeader = 2 * 48

// make makes the folder.
func (s *shmDir) make() error {
	if s.made || !s.offered {
		return nil
	}
	if err := os.Mkdir(s.path, 0o700); err != nil {
		return fmt.Errorf("vfs: shared memory: %w", err)
	}
	s.made = true
	return nil
}

// remove removes the folder with what is in it, which no connection has open.
func (s *shmDir) remove() error {
	if !s.made {
		return nil
	}
	s.made = false
	return os.RemoveAll(s.path)
}
