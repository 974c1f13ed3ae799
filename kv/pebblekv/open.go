package pebblekv

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/optimistic"
	"github.com/greenroomdb/greenroom/metrics"
)

// Open opens the store in the directory dir, creating directory and store when
// there is none and opts allow it; a nil opts is the zero Options. A directory
// may be open once at a time, on the whole machine.
//
// Directories are made for their owner alone (mode 0700), and so are files (0600), whatever
// the umask is. What is there already keeps its mode: see DB.Exposed.
//
// Errors: kv.ErrNoStore, kv.ErrNotAStore when dir is a file or holds files that
// are no store (nothing in it is touched then), kv.ErrStoreInUse,
// ErrNewerFormat (as *kv.FormatError), kv.ErrCorrupt (ErrLogDamaged, too, if the log is), kv.ErrUnsupported for a store of
// the first format that isn't opened for reading alone.
func Open(dir string, opts *Options) (*DB, error) {
	return open(dir, opts, workaround.OnDisk)
}

// open is Open on any file system; tests bring failing and crashing ones.
func open(dir string, opts *Options, disk vfs.FS) (_ *DB, err error) {
	if opts == nil {
		opts = &Options{}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("pebblekv: open %s: %w", dir, err)
		}
	}()
	if err := inspect(dir, opts, disk); err != nil {
		return nil, err
	}
	path := dir
	if disk == workaround.OnDisk {
		// The lock is per process and per name: one directory must not have two.
		if path, err = realPath(dir); err != nil {
			return nil, err
		}
	}
	lock, err := pebble.LockDirectory(path, disk)
	if opts.ReadOnly && workaround.Unwritable(err) {
		lock, err = pebble.LockDirectory(path, workaround.SharedFS{FS: disk})
	}
	if err != nil {
		return nil, lockError(err)
	}
	d, err := start(path, opts, disk, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// start opens Pebble in a directory that is locked and fit for it.
func start(dir string, opts *Options, disk vfs.FS, lock *pebble.Lock) (*DB, error) {
	fault, life := workaround.NewFault(), workaround.NewLife()
	memtable, mostLog := cmp.Or(opts.MemtableBytes, defaultMemtable), cmp.Or(opts.maxLog, maxLog)
	d := &DB{
		dir: dir, onDisk: disk == workaround.OnDisk, readOnly: opts.ReadOnly, lock: lock, fault: fault, life: life, checked: checked{rows: map[string]*checkedRow{}},
		mostLog: mostLog, logFile: min(memtable, maxLogFile, mostLog/4),
		clock:  clock{now: time.Now},
		recent: newRecent(max(0, cmp.Or(opts.PatchBytes, defaultPatch))),
		meter:  metrics.Meter{To: opts.Metrics},
		gate:   workaround.NewGate(fault, life.Closing(), memtable),
	}
	d.fence = workaround.NewFence(disk, dir, fault, d.gate, func(name string) { d.meter.Count(fsyncsOf(name), 1) })
	d.txs = optimistic.New((*txStore)(d))
	err := openStore(d, opts, disk)
	if d.db != nil {
		d.newest = workaround.NewNewest(d.db, fault, memtable)
	}
	if err != nil {
		if fault.Get() != nil {
			err = workaround.Full(fault.Cause()) // not poisoned, just not opened
		}
		if d.db != nil {
			life.Close()
			err = errors.Join(err, d.closePebble())
		}
		return nil, workaround.OpenError(err, logDir)
	}
	d.fence.Arm()
	if d.rest != nil {
		opts.WithoutLogRest(d.rest.cause)
	}
	if !d.readOnly {
		d.gate.Watch(d.db, lacking(d, d.mostLog))
	}
	return d, nil
}

// openStore opens d's Pebble, and takes in what is only in the log. What it returns with an error
// has to be closed all the same.
func openStore(d *DB, opts *Options, disk vfs.FS) error {
	format, made, err := storeFormat(disk, d.dir)
	if err == nil && format == ownLog {
		// A log is there before the store is, so that one that is lost is missed.
		if made {
			err = ofLog(findLog(disk, d.dir))
			if opts.ReadOnly && opts.WithoutLogRest != nil && errors.Is(err, kv.ErrCorrupt) {
				d.rest, err = &logRest{cause: err}, nil
				d.fence.FS = workaround.LostDir{FS: disk, Dir: disk.PathJoin(d.dir, logDir)}
			}
		} else {
			if err = makeLog(logOptions(d, disk)); err == nil {
				d.meter.Count(metricOtherFsyncs, 1)
				err = syncDir(disk, d.dir)
			}
		}
	}
	if err != nil {
		return err
	}
	if format == pebbleLog && !d.readOnly {
		return errOlder
	}
	if !d.readOnly {
		if err := disk.RemoveAll(disk.PathJoin(d.dir, baseDir)); err != nil {
			return err
		}
	}
	if made && format == ownLog {
		err = checkManifest(d, opts, disk, format)
		if opts.ReadOnly && opts.WithoutLogRest != nil && pebble.IsCorruptionError(err) {
			err = nil // a row of the store's own lies in a damaged table
		}
	}
	if err == nil {
		err = errors.Join(openPebble(d, opts, format), d.fault.Get())
	}
	if err != nil {
		return err
	}
	switch {
	case d.readOnly && format == ownLog:
		var with vfs.FS
		if with, err = readLog(d, disk, opts); with != nil {
			d.fence.FS = with
			if err = errors.Join(err, leavePebble(d)); err == nil {
				err = openPebble(d, opts, format)
			}
		}
	case !d.readOnly:
		err = openLog(d, disk)
	}
	if err == nil {
		if err = loadVersion(d); opts.ReadOnly && opts.WithoutLogRest != nil && pebble.IsCorruptionError(err) {
			err = nil // only writing needs it
		}
	}
	return errors.Join(err, d.fault.Get())
}

// checkManifest returns an error if MANIFEST was cut off, see workaround.CheckManifest. If it is whole, nothing else is read.
func checkManifest(d *DB, opts *Options, disk vfs.FS, format string) error {
	path, whole, err := workaround.CheckManifest(disk, d.dir)
	if whole || err != nil {
		return err
	}
	reading := *opts
	reading.ReadOnly = true
	if err := openPebble(d, &reading, format); err != nil {
		return err
	}
	number, err := flushed(d.db)
	tables := int64(0)
	for _, level := range d.db.Metrics().Levels {
		tables += level.TablesCount
	}
	if err == nil && number == 0 && tables > 0 {
		err = fmt.Errorf("%w: %s is cut off", kv.ErrCorrupt, path)
	}
	return errors.Join(err, leavePebble(d))
}

// leavePebble closes a Pebble that is opened in another way then.
func leavePebble(d *DB) error {
	db := d.db
	d.db = nil
	return d.fault.Guard(db.Close)
}

// openPebble opens Pebble with a store of a format.
func openPebble(d *DB, opts *Options, format string) error {
	o := pebbleOptions(opts, d)
	defer o.Cache.Unref()
	o.WALDir, o.DisableWAL = format, format == ownLog
	return d.fault.Guard(func() (err error) {
		d.db, err = pebble.Open(d.dir, o)
		return err
	})
}

// teardown closes Pebble and gives the directory back. Nothing uses d.db then.
func (d *DB) teardown() error {
	err := d.closePebble()
	if lerr := d.lock.Close(); err == nil {
		err = wrap(lerr)
	}
	if bad := d.fault.Get(); bad != nil {
		return bad
	}
	return err
}

// closePebble closes Pebble and the log.
func (d *DB) closePebble() error {
	return wrap(d.fault.Close(func() (err error) {
		d.gate.Unwatched()
		d.newest.Close()
		if d.log != nil {
			drainLog(d)
			if bad := d.fault.Get(); bad != nil {
				d.log.Fail(bad)
			}
			err = d.log.Close()
		}
		return errors.Join(err, d.fault.Guard(d.db.Close))
	}))
}

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
	if opts.MustExist || opts.ReadOnly {
		return kv.ErrNoStore
	}
	return nil
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
	return v != "", err
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
