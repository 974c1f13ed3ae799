package workaround

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of what a store makes. A store holds everything that its actors have, and secrets of
// the program besides, so it is its owner's alone, whatever the umask says.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// private is the operating system's file system, in which what is made is its owner's alone.
// What is there already keeps its mode. On Windows modes mean nothing: a new file has the
// permissions that its directory passes on.
//
// A file gets its mode as it is made, so that another user
// can't open it at any moment. Pebble's vfs.Default can't make one like that, but opens one that is there.
type private struct{ vfs.FS }

// OnDisk is the file system of stores, but in tests.
var OnDisk vfs.FS = private{vfs.Default}

// create makes an empty file, fs.ErrExist if there is one.
func (private) create(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, FileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// Create makes a file in the place of one that may be there.
func (p private) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	err := p.create(name)
	for errors.Is(err, fs.ErrExist) {
		if err := p.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		err = p.create(name)
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c)
}

func (p private) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := p.create(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c, opts...)
}

func (p private) MkdirAll(dir string, mode fs.FileMode) error {
	return p.FS.MkdirAll(dir, mode&DirMode)
}

// Lock doesn't open the file a second time: closing that would give the lock up. Nothing is
// ever in the file.
func (p private) Lock(name string) (io.Closer, error) {
	_, missing := os.Lstat(name)
	lock, err := p.FS.Lock(name)
	if err == nil && errors.Is(missing, fs.ErrNotExist) {
		if err = os.Chmod(name, FileMode); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return lock, err
}

// Unwrap gives Pebble the file system below, see vfs.FS.
func (p private) Unwrap() vfs.FS { return p.FS }
