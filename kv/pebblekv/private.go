package pebblekv

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of what a store makes. A store holds everything that its actors have, and secrets of
// the program besides, so it is its owner's alone, whatever the umask says.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// private is the operating system's file system, in which what is made is its owner's alone.
// What is there already keeps its mode. On Windows modes mean nothing: a new file has the
// permissions that its directory passes on.
//
// A file gets its mode as it is made, so that there is no moment at which another user could
// open it. Pebble's vfs.Default can't make one like that, but opens one that is there.
type private struct{ vfs.FS }

// onDisk is the file system of stores, but in tests.
var onDisk vfs.FS = private{vfs.Default}

// create makes an empty file, fs.ErrExist if there is one.
func (private) create(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
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
	return p.FS.MkdirAll(dir, mode&dirMode)
}

// Lock doesn't open the file a second time: closing that would give the lock up. Nothing is
// ever in the file.
func (p private) Lock(name string) (io.Closer, error) {
	_, missing := os.Lstat(name)
	lock, err := p.FS.Lock(name)
	if err == nil && errors.Is(missing, fs.ErrNotExist) {
		if err = os.Chmod(name, fileMode); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return lock, err
}

// Unwrap gives Pebble the file system below, see vfs.FS.
func (p private) Unwrap() vfs.FS { return p.FS }

// Exposed reports whether other users of the machine can read or change what the store in a directory has, by
// the modes of its files and of the directories on the way to them. A store isn't exposed
// unless its owner, or a program that doesn't set modes, made it so. Where modes mean nothing,
// as on Windows, the answer is false.
func Exposed(store string) (bool, error) {
	if runtime.GOOS == "windows" {
		return false, nil
	}
	store, err := realPath(store)
	if err != nil {
		return false, wrap(err)
	}
	const read, write, enter = 4, 2, 1
	info, err := os.Stat(store)
	if err != nil {
		return false, wrap(err)
	}
	exposed := others(info)&write != 0
	for dir := store; ; dir = filepath.Dir(dir) {
		if info, err = os.Stat(dir); err != nil {
			return false, wrap(err)
		}
		if others(info)&enter == 0 {
			return false, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	err = filepath.WalkDir(store, func(path string, f fs.DirEntry, err error) error {
		if err != nil || path == store {
			return err
		}
		info, err := f.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // the store has removed it
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			exposed = exposed || others(info)&(read|write) != 0
			return nil
		}
		if exposed = exposed || others(info)&write != 0; others(info)&enter == 0 {
			return fs.SkipDir
		}
		return nil
	})
	return exposed, wrap(err)
}

// others returns what users other than the owner may do with a file: those of its group, or
// all of them.
func others(info fs.FileInfo) fs.FileMode { return (info.Mode()>>3 | info.Mode()) & 7 }
