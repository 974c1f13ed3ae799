package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// Pebble writes the name of its log directory into each file of options. That name says which format
// a store has, beyond Pebble's own. A program that expects another name refuses to open the store,
// and its error names the directory, which may have a log to replay.
const (
	// pebbleLog is the first format: a store without patches, with Pebble's log in the directory of
	// the store itself.
	pebbleLog = ""
	// ownLog is the second: one with patches, see appendPatch, and a log of its own in logDir, see
	// package wal. To Pebble it is a directory in the store's.
	ownLog = "{store_path}/" + logDir
	logDir = "log.2"
	// formatNumber is that of the newest, and at the end of logDir.
	formatNumber = 2
)

// baseDir is where a Base is while it is open, in the directory of the store.
const baseDir = "base.tmp"

const formatLine = "\n  wal_dir="

// storeFormat returns the format of the store in dir, the newest one for one that is yet to be made.
func storeFormat(disk vfs.FS, dir string) (format string, made bool, err error) {
	name, text, err := readOptions(disk, dir)
	if err == nil && name == "" {
		err = refuseOrphans(disk, dir)
	}
	if err != nil || name == "" {
		return ownLog, false, err
	}
	_, rest, _ := strings.Cut(text, formatLine)
	format, _, whole := strings.Cut(rest, "\n")
	digits, _ := strings.CutPrefix(format, strings.TrimRight(ownLog, "0123456789"))
	n, notNumber := strconv.ParseUint(digits, 10, 64)
	switch {
	case !whole:
		err = fmt.Errorf("%w: %s names no directory for logs", kv.ErrCorrupt, name)
	case format == ownLog:
	case format == pebbleLog:
		if _, missing := disk.Stat(disk.PathJoin(dir, logDir)); missing == nil {
			err = fmt.Errorf("%w: %s names no directory for logs, and there is %s", kv.ErrCorrupt, name, logDir)
		}
	case notNumber == nil && n > formatNumber:
		err = &kv.FormatError{What: "store", Found: n, Known: formatNumber}
	default:
		err = fmt.Errorf("%w: %s has the log in %q, and it is in %q", kv.ErrCorrupt, name, format, ownLog)
	}
	return format, true, err
}

// errOlder is what Open returns for a store of the first format, unless it is to be read only.
var errOlder = fmt.Errorf("%w: a store of format 1 can only be read; commit 3fff319 of Greenroom is the last that converts one", kv.ErrUnsupported)

// refuseOrphans returns an error if a directory holds rows, but no file of options, which every store has from its making on. Without
// that file the format of the rows is unknown.
func refuseOrphans(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if err == nil && slices.Contains([]string{".sst", ".blob", ".log"}, filepath.Ext(name)) {
			err = fmt.Errorf("%w: %s is there, but no file of options", kv.ErrCorrupt, disk.PathJoin(dir, name))
		}
	}
	if err != nil {
		return err
	}
	logs := disk.PathJoin(dir, logDir)
	last, err := wal.Read(disk, logs, 0, func(uint64, []byte) error { return nil })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && last > 0:
		return fmt.Errorf("%w: %s has records, but there is no file of options", kv.ErrCorrupt, logs)
	}
	return err
}

// removeLogs removes Pebble's logs from the directory of a store that doesn't use them any more.
func removeLogs(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	for _, name := range names {
		if err == nil && strings.HasSuffix(name, ".log") {
			err = disk.Remove(disk.PathJoin(dir, name))
		}
	}
	return err
}

// readOptions returns the name and the text of the newest file of options. Both are "" if the
// creation of the store was cut short before it wrote one.
func readOptions(disk vfs.FS, dir string) (name, text string, err error) {
	names, err := disk.List(dir)
	if err != nil {
		return "", "", err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "OPTIONS-") && (len(n) > len(name) || len(n) == len(name) && n > name) {
			name = n
		}
	}
	if name == "" {
		return "", "", nil
	}
	f, err := disk.Open(disk.PathJoin(dir, name))
	if err != nil {
		return "", "", err
	}
	b, err := io.ReadAll(f)
	return name, string(b), errors.Join(err, f.Close())
}

// syncDir makes the names in a directory outlive a crash.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
