package pebblekv

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv/internal/optimistic"
	"github.com/greenroomdb/greenroom/metrics"
)

// Open opens the store in the directory dir. It creates the directory and the store if they don't exist and opts allow
// it; a nil opts is the zero Options. A directory may be open only once at a time on the whole machine.
//
// Open creates directories and files for their owner alone (modes 0700 and 0600), whatever the umask is. Existing ones
// keep their mode: see Exposed.
//
// Errors: kv.ErrNoStore, kv.ErrNotAStore if dir is a file or holds the files of something else (Open changes nothing
// there), kv.ErrStoreInUse, ErrNewerFormat (as *kv.FormatError), kv.ErrCorrupt (also ErrLogDamaged, if the log is
// corrupt), kv.ErrUnsupported for a store of the first format, unless it is opened for reading alone.
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
	fault, life, small := workaround.NewFault(), workaround.NewLife(), smallStore(opts, disk, dir)
	memtable, mostLog := cmp.Or(opts.MemtableBytes, defaultMemtable), cmp.Or(opts.maxLog, maxLog)
	s := &store{
		dir: dir, onDisk: disk == workaround.OnDisk, readOnly: opts.ReadOnly, lock: lock, fault: fault, life: life,
		meter: metrics.Meter{To: opts.Metrics}, gate: workaround.NewGate(fault, life.Closing(), memtable, small/2), small: small,
	}
	s.fence = workaround.NewFence(disk, dir, leastFree(opts)/4, fault, s.gate, func(name string) { s.meter.Count(fsyncsOf(name), 1) })
	s.room = newRoom(leastFree(opts), s.free, s.behind, s.roomTurned)
	o := &opener{store: s, opts: opts, disk: disk, fileBytes: min(memtable, maxLogFile, mostLog/4)}
	version, err := o.open()
	if s.db != nil {
		s.newest = workaround.NewNewest(s.db, fault, memtable)
	}
	if err != nil {
		if fault.Get() != nil {
			err = workaround.Full(fault.Cause()) // not poisoned, just not opened
		}
		if s.db != nil {
			life.Close()
			err = errors.Join(err, s.closePebble())
		}
		return nil, workaround.OpenError(err, logDir)
	}
	s.fence.Arm()
	s.compactor.Start()
	if o.rest != nil {
		opts.WithoutLogRest(o.rest.cause)
	}
	rows := newMemory(max(0, cmp.Or(opts.PatchBytes, defaultPatch)))
	d := &DB{store: s, rest: o.rest, reads: &reader{store: s, memory: rows}}
	d.commits = &committer{
		journal: &journal{store: s, clock: clock{now: time.Now}, held: o.held, fileBytes: o.fileBytes, most: mostLog},
		memory:  rows,
	}
	d.commits.version.Store(version)
	d.commits.txs = optimistic.New(&txStore{d.commits, d.reads})
	if !s.readOnly {
		s.gate.Watch(s.db, d.commits.lacking(mostLog))
		s.reclaimer = newReclaimer(s)
	}
	return d, nil
}
