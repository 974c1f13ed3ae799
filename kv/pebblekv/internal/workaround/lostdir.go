package workaround

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// LostDir is a file system in which a directory is there, and empty, if it isn't. Pebble opens no store whose directory for
// logs is missing, also one that is only read.
type LostDir struct {
	vfs.FS
	Dir string
}

// List lists a directory, nothing for the one that is lost.
func (l LostDir) List(dir string) ([]string, error) {
	names, err := l.FS.List(dir)
	if dir == l.Dir && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// OpenDir opens a directory, in place of the lost one that in which it was.
func (l LostDir) OpenDir(dir string) (vfs.File, error) {
	f, err := l.FS.OpenDir(dir)
	if dir == l.Dir && errors.Is(err, fs.ErrNotExist) {
		return l.FS.OpenDir(l.PathDir(dir))
	}
	return f, err
}
