package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// inspect refuses a directory that must not become, or can't be, a store, before
// anything is written, and makes the directory when it is to be created.
func inspect(dir string, opts *Options, disk vfs.FS) error {
	info, err := disk.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if opts.MustExist || opts.ReadOnly {
			return kv.ErrNoStore
		}
		return makeDir(dir, disk)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: it is a file", kv.ErrNotAStore)
	}
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	exists, err := hasManifest(disk, dir)
	if err != nil {
		return err
	}
	if exists {
		return checkFormat(disk, dir)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS-") { // a store has it from its making on, and the marker before
			return fmt.Errorf("%w: there is no file marker.manifest.* beside %s", kv.ErrCorrupt, disk.PathJoin(dir, name))
		}
	}
	for _, name := range names {
		if !leftover(name) {
			return fmt.Errorf("%w: it holds %q, but no manifest", kv.ErrNotAStore, name)
		}
	}
	if !opts.MustExist && !opts.ReadOnly {
		return nil
	}
	if orphans := refuseOrphans(disk, dir); orphans != nil {
		// A marker that is there by now is that of a process that makes the store.
		if exists, err = hasManifest(disk, dir); err == nil && !exists {
			err = orphans
		}
		return err
	}
	return kv.ErrNoStore
}

// makeDir makes a directory with its missing parents so that a crash doesn't take
// it away again: Pebble only syncs the entry of the directory itself.
func makeDir(dir string, disk vfs.FS) error {
	var parents []string
	for p := disk.PathDir(dir); ; p = disk.PathDir(p) {
		parents = append(parents, p)
		_, err := disk.Stat(p)
		if err == nil || disk.PathDir(p) == p {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := disk.MkdirAll(dir, workaround.DirMode); err != nil {
		return err
	}
	for _, p := range parents {
		if err := syncDir(disk, p); err != nil {
			return err
		}
	}
	return nil
}

// hasManifest reports whether dir holds the marker that a store, once created,
// always has. https://github.com/cockroachdb/pebble/blob/v2.1.7/vfs/atomicfs/marker.go
func hasManifest(disk vfs.FS, dir string) (bool, error) {
	v, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if v == "" || err != nil {
		return false, err
	}
	unmade, err := halfMade(disk, dir, v)
	return !unmade, err
}

// halfMade reports whether the making of a store was cut off by a crash that left the marker, and not the MANIFEST that it names: nothing
// syncs the directory between the two. Without a file of options, which comes later, and without rows nothing was ever in it.
func halfMade(disk vfs.FS, dir, manifest string) (bool, error) {
	if _, err := disk.Stat(disk.PathJoin(dir, manifest)); !errors.Is(err, fs.ErrNotExist) {
		return false, nil // what else is wrong with it opening says
	}
	name, _, err := readOptions(disk, dir)
	return err == nil && name == "" && refuseOrphans(disk, dir) == nil, err
}

// removeMarker removes the marker of a store that is half made. Nothing else uses the directory.
func removeMarker(disk vfs.FS, dir string) error {
	v, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if v == "" || err != nil {
		return err
	}
	unmade, err := halfMade(disk, dir, v)
	if !unmade || err != nil {
		return err
	}
	names, err := disk.List(dir)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, "marker.manifest.") {
			err = disk.Remove(disk.PathJoin(dir, name))
		}
	}
	return err
}

// checkFormat refuses a store whose format this Pebble doesn't know.
func checkFormat(disk vfs.FS, dir string) error {
	v, err := atomicfs.ReadMarker(disk, dir, "format-version")
	if err != nil || v == "" {
		return err
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: format version %q", kv.ErrCorrupt, v)
	}
	if known := uint64(pebble.FormatNewest); n > known {
		return &kv.FormatError{What: "Pebble directory", Found: n, Known: known}
	}
	return nil
}

// leftover reports whether a file may lie in a directory where the creation of a
// store was cut short: before the manifest marker is placed, these are all that
// Pebble has made. (A file system's root may also have a lost+found.)
func leftover(name string) bool {
	return name == "LOCK" || name == "lost+found" || name == logDir ||
		strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.")
}

// realPath is the one name of a directory that exists.
func realPath(dir string) (string, error) {
	p, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(p)
}

// sharingViolation is Windows' error for a file that another process has open to
// itself. On other systems the number means something else.
//
// https://learn.microsoft.com/en-us/windows/win32/debug/system-error-codes--0-499-
const sharingViolation = syscall.Errno(32)

// lockError tells a lock that another holds from one that can't be made.
func lockError(err error) error {
	held := errors.Is(err, syscall.EAGAIN) || // another process, fcntl(2)
		runtime.GOOS == "windows" && errors.Is(err, sharingViolation) ||
		strings.Contains(err.Error(), "lock held by current process")
	if held {
		return fmt.Errorf("%w: %w", kv.ErrStoreInUse, err)
	}
	return err
}
