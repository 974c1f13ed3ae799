package pebblekv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

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
