package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// What a store holds, besides what Pebble's own format says, is told by the directory for logs that
// Pebble writes into each file of options. A program with another one refuses to open the store, and
// names that directory: there may be a log in it that has to be replayed.
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

const formatLine = "\n  wal_dir="

// storeFormat returns the format of the store in dir, the newest one for one that is yet to be made.
func storeFormat(disk vfs.FS, dir string) (format string, made bool, err error) {
	name, text, err := readOptions(disk, dir)
	if err != nil || name == "" {
		return ownLog, false, err
	}
	_, rest, ok := strings.Cut(text, formatLine)
	if !ok {
		return "", true, fmt.Errorf("%w: %s names no directory for logs", kv.ErrCorrupt, name)
	}
	format, _, _ = strings.Cut(rest, "\n")
	if format == pebbleLog || format == ownLog {
		return format, true, nil
	}
	digits, _ := strings.CutPrefix(format, strings.TrimRight(ownLog, "0123456789"))
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil && n > formatNumber {
		return "", true, &kv.FormatError{What: "store", Found: n, Known: formatNumber}
	}
	return "", true, fmt.Errorf("%w: it has its log in %q, and this program knows %q", kv.ErrNewerFormat, format, ownLog)
}

// foreign returns errkind.ErrUnsupported for a store of the first format that has a row where the second has its own.
func foreign(db *pebble.DB) error {
	_, closer, err := db.Get(numberKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = errors.Join(fmt.Errorf("%w: this version keeps a row of its own at the key %q, where the store has another: remove that with the version before", errkind.ErrUnsupported, numberKey), closer.Close())
	}
	return err
}

// raiseFormat makes a store, whose tables have everything, one of the newest format, in one step that
// can't be undone.
func raiseFormat(disk vfs.FS, dir string) error {
	name, text, err := readOptions(disk, dir)
	if err != nil {
		return err
	}
	before, rest, _ := strings.Cut(text, formatLine)
	_, after, _ := strings.Cut(rest, "\n")
	return replaceFile(disk, dir, name, before+formatLine+ownLog+"\n"+after)
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

// readOptions returns the newest file of options and its name, "" if there is none: then the
// creation of the store was cut short before it.
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

// replaceFile has a file of dir hold text, or what it held before, whatever happens meanwhile.
func replaceFile(disk vfs.FS, dir, name, text string) error {
	// A name that Pebble removes when it finds one.
	temp := disk.PathJoin(dir, "temporary.000000.dbtmp")
	f, err := disk.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(temp, disk.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncDir(disk, dir)
}

// syncDir has the names in a directory outlive a crash.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
