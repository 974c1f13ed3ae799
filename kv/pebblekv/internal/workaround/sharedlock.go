package workaround

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A SharedFS locks a directory in which nothing can be written, for reading: other readers
// may have it too, and a writer on the same machine may not.
type SharedFS struct{ vfs.FS }

// Lock takes a lock of the file that a store has. A copy of a store without the file isn't
// locked: a store that is written to has it.
func (SharedFS) Lock(name string) (io.Closer, error) {
	lock, err := shareLock(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return lock, err
}

// Unwritable reports whether err says that a file can't be written to, because of its mode or
// its file system.
func Unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
