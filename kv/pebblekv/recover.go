package pebblekv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// An opener opens the store in a directory, and takes in what is only in its log.
type opener struct {
	*store
	opts      *Options
	disk      vfs.FS
	format    string
	fileBytes int64    // to which size a file of the log is filled
	held      Held     // of the log
	rest      *logRest // what of the log is left out, nil for nothing
}

// open opens Pebble, takes in what is only in the log, and returns the version of the newest commit. A Pebble that is open after an error
// must be closed all the same.
func (o *opener) open() (version uint64, err error) {
	made, err := o.prepare()
	if err == nil && made && o.format == ownLog {
		err = o.checkManifest()
		if o.salvages() && pebble.IsCorruptionError(err) {
			err = nil // a row of the store's own lies in a damaged table
		}
	}
	if err == nil {
		err = errors.Join(o.openPebble(o.opts), o.fault.Get())
	}
	if err != nil {
		return 0, err
	}
	switch {
	case o.readOnly && o.format == ownLog:
		var with vfs.FS
		if with, err = o.readLog(); with != nil {
			o.fence.FS = with
			if err = errors.Join(err, o.leavePebble()); err == nil {
				err = o.openPebble(o.opts)
			}
		}
	case !o.readOnly:
		err = o.openLog()
	}
	if err == nil {
		if version, err = loadVersion(o.db); o.salvages() && pebble.IsCorruptionError(err) {
			err = nil // only writing needs it
		}
	}
	return version, errors.Join(err, o.fault.Get())
}

// salvages reports whether a store is opened of which the log may be damaged.
func (o *opener) salvages() bool { return o.opts.ReadOnly && o.opts.WithoutLogRest != nil }

// prepare finds out the format of the store, sees to its log, and reports whether the store was made before.
func (o *opener) prepare() (made bool, err error) {
	disk := o.disk
	o.format, made, err = storeFormat(disk, o.dir)
	if err == nil && o.format == ownLog {
		// A log is there before the store is, so that one that is lost is missed.
		if made {
			err = ofLog(findLog(disk, o.dir))
			if o.salvages() && errors.Is(err, kv.ErrCorrupt) {
				o.rest, err = &logRest{cause: err}, nil
				o.fence.FS = workaround.LostDir{FS: disk, Dir: disk.PathJoin(o.dir, logDir)}
			}
		} else {
			if err = errors.Join(removeMarker(disk, o.dir), makeLog(o.logOptions())); err == nil {
				o.meter.Count(metricOtherFsyncs, 1)
				err = syncDir(disk, o.dir)
			}
		}
	}
	if err != nil || o.readOnly {
		return made, err
	}
	if o.format == pebbleLog {
		return made, errOlder
	}
	return made, disk.RemoveAll(disk.PathJoin(o.dir, baseDir))
}

// checkManifest returns an error if MANIFEST was cut off, see workaround.CheckManifest. If it is whole, nothing else is read.
func (o *opener) checkManifest() error {
	path, whole, err := workaround.CheckManifest(o.disk, o.dir)
	if whole || err != nil {
		return err
	}
	reading := *o.opts
	reading.ReadOnly = true
	if err := o.openPebble(&reading); err != nil {
		return err
	}
	number, err := flushed(o.db)
	tables := int64(0)
	for _, level := range o.db.Metrics().Levels {
		tables += level.TablesCount
	}
	if err == nil && number == 0 && tables > 0 {
		err = fmt.Errorf("%w: %s is cut off", kv.ErrCorrupt, path)
	}
	return errors.Join(err, o.leavePebble())
}

// leavePebble closes a Pebble that is opened in another way then.
func (o *opener) leavePebble() error {
	db := o.db
	o.db = nil
	return o.fault.Guard(db.Close)
}

// openPebble opens Pebble with the store.
func (o *opener) openPebble(opts *Options) error {
	o.compactor = workaround.NewCompactor()
	with := pebbleOptions(opts, o.store)
	defer with.Cache.Unref()
	with.WALDir, with.DisableWAL = o.format, o.format == ownLog
	return o.fault.Guard(func() (err error) {
		o.db, err = pebble.Open(o.dir, with)
		return err
	})
}

// openLog replays the log of the store, whose Pebble has what is in the tables, and writes everything to the
// tables. Nothing else uses the store yet.
func (o *opener) openLog() error {
	after, err := flushed(o.db)
	if err != nil {
		return err
	}
	if o.held, err = readHold(o.disk, o.dir); err != nil {
		return err
	}
	o.log, err = wal.Open(o.logOptions(), after, func(number uint64, batch []byte) error {
		b := o.db.NewBatch()
		err := setRepr(b, number, batch)
		if err == nil {
			err = o.fault.Guard(func() error { return o.db.Apply(b, pebble.NoSync) })
		}
		return errors.Join(err, b.Close())
	})
	if err != nil || o.log.Last() == after {
		return ofLog(err)
	}
	// While the store is being opened a failure of the disk is the fault's alone to tell.
	if err := errors.Join(o.fault.Guard(o.db.Flush), o.fault.Get()); err != nil {
		return err
	}
	if after, err = flushed(o.db); err == nil {
		o.log.Release(after)
	}
	return err
}

// logOptions are those of the log.
func (o *opener) logOptions() wal.Options {
	return wal.Options{
		FS: o.disk, Dir: o.disk.PathJoin(o.dir, logDir), FileBytes: o.fileBytes, Failed: o.fault.Set, Hold: o.held.From, KeepBytes: o.held.Most,
		Synced: func() { o.meter.Count(metricLogFsyncs, 1) },
		Wrote:  func(bytes int) { o.meter.Count(metricLogBytes, int64(bytes)) },
	}
}

// makeLog makes an empty log unless one is there.
func makeLog(opts wal.Options) error {
	if err := opts.FS.MkdirAll(opts.Dir, workaround.DirMode); err != nil {
		return err
	}
	there, err := wal.Exists(opts.FS, opts.Dir)
	if err == nil && !there {
		err = wal.Create(opts, 0)
	}
	return err
}

// findLog returns an error if a store has lost its log.
func findLog(disk vfs.FS, dir string) error {
	logs := disk.PathJoin(dir, logDir)
	there, err := wal.Exists(disk, logs)
	if err == nil && !there || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the write-ahead log %s is missing", kv.ErrCorrupt, logs)
	}
	return err
}

// setRepr sets b to a batch of the log, with its number.
func setRepr(b *pebble.Batch, number uint64, batch []byte) error {
	repr := append(make([]byte, seqNumBytes, seqNumBytes+len(batch)+numberBytes), batch...)
	if err := b.SetRepr(repr); err != nil {
		return fmt.Errorf("%w: record %d of the log is not a batch: %w", kv.ErrCorrupt, number, err)
	}
	return b.Set(numberKey, binary.BigEndian.AppendUint64(nil, number), nil)
}

// readLog returns a file system in which what is in the log of a store, but not yet in its tables, is
// in a log of Pebble's, or nil if there is nothing. A store that is only read can't take it in any
// other way: Pebble replays its own log into memory. o.db is its Pebble without that. With Options.WithoutLogRest a log that is damaged is
// read up to there; see logRest.
func (o *opener) readLog() (vfs.FS, error) {
	db, disk, logs := o.db, o.disk, o.disk.PathJoin(o.dir, logDir)
	after, err := flushed(db)
	if o.salvages() && pebble.IsCorruptionError(err) {
		// What of the log the tables have isn't known, so nothing of it can be put on top of them.
		o.rest = &logRest{cause: workaround.Corrupt(err), disk: disk}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	replay, err := workaround.NewReplay(db, disk, o.dir, logs)
	if err != nil {
		return nil, err
	}
	add := func(number uint64, batch []byte) error {
		b := db.NewBatch()
		err := setRepr(b, number, batch)
		if err == nil {
			err = replay.Add(b)
		}
		return errors.Join(err, b.Close())
	}
	last := after
	switch {
	case o.opts.records != nil:
		last, err = takeRecords(o.opts.records, after, add)
	case o.salvages():
		last, err = readBegin(&o.rest, disk, logs, after, add)
	default:
		last, err = wal.Read(disk, logs, after, add)
		err = ofLog(err)
	}
	with, cerr := replay.Close()
	if err = errors.Join(err, cerr); err != nil || last == after {
		return nil, err
	}
	return with, nil
}

// takeRecords hands those of the records that are behind number after to add, and returns the number of the last one.
func takeRecords(records iter.Seq2[Record, error], after uint64, add func(number uint64, batch []byte) error) (last uint64, err error) {
	last = after
	for r, err := range records {
		if err == nil && r.Number > last {
			last = r.Number
			err = add(r.Number, r.Batch)
		}
		if err != nil {
			return last, err
		}
	}
	return last, nil
}
