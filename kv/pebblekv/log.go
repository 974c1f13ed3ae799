package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// The log has what Pebble calls the representation of each batch, from its count of operations on:
// the sequence number before that is Pebble's own affair. Each batch sets numberKey to its number
// in the log, which the log doesn't repeat, so that the tables say up to where they have what is in
// the log: a flush has all of a batch or nothing of it, and nothing of a later one without it.

const (
	// seqNumBytes is what of a representation isn't in the log.
	seqNumBytes = 8
	// maxLog is how many bytes of the log the tables may lack before writers wait: about so much is
	// read when a store is opened after a crash, at most.
	maxLog = 256 << 20
	// maxLogFile is how large a file of it becomes.
	maxLogFile = 64 << 20
)

// openLog replays the log of d, whose Pebble has what is in the tables, and writes everything to the
// tables. Nothing else uses d yet.
func openLog(d *DB, disk vfs.FS) error {
	after, err := flushed(d.db)
	if err != nil {
		return err
	}
	if d.held, err = readHold(disk, d.dir); err != nil {
		return err
	}
	d.log, err = wal.Open(logOptions(d, disk), after, func(number uint64, batch []byte) error {
		b := d.db.NewBatch()
		err := setRepr(b, number, batch)
		if err == nil {
			err = d.fault.Guard(func() error { return d.db.Apply(b, pebble.NoSync) })
		}
		return errors.Join(err, b.Close())
	})
	if err != nil || d.log.Last() == after {
		return ofLog(err)
	}
	// While the store is being opened a failure of the disk is the fault's alone to tell.
	if err := errors.Join(d.fault.Guard(d.db.Flush), d.fault.Get()); err != nil {
		return err
	}
	if after, err = flushed(d.db); err == nil {
		d.log.Release(after)
	}
	return err
}

// logOptions are those of the log of d.
func logOptions(d *DB, disk vfs.FS) wal.Options {
	return wal.Options{
		FS: disk, Dir: disk.PathJoin(d.dir, logDir), FileBytes: d.logFile, Failed: d.fault.Set, Hold: d.held.From, KeepBytes: d.held.Most,
		Synced: func() { d.meter.Count(metricLogFsyncs, 1) },
		Wrote:  func(bytes int) { d.meter.Count(metricLogBytes, int64(bytes)) },
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

// setRepr has b be a batch of the log, with its number.
func setRepr(b *pebble.Batch, number uint64, batch []byte) error {
	repr := append(make([]byte, seqNumBytes, seqNumBytes+len(batch)+numberBytes), batch...)
	if err := b.SetRepr(repr); err != nil {
		return fmt.Errorf("%w: record %d of the log is no batch: %w", kv.ErrCorrupt, number, err)
	}
	return b.Set(numberKey, binary.BigEndian.AppendUint64(nil, number), nil)
}

// flushed returns up to which number the tables have the batches of the log.
func flushed(db *pebble.DB) (number uint64, err error) {
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: numberKey, UpperBound: afterOwn, OnlyReadGuaranteedDurable: true,
	})
	if err != nil {
		return 0, err
	}
	if it.First() {
		number, err = ownNumber(it.ValueAndErr())
	}
	return number, errors.Join(err, it.Error(), it.Close())
}

// lacking returns a function that tells the log what the tables have, and has them be written if they
// lack half of what they may at most. It returns whether they lack that, and must not be called
// concurrently.
func lacking(d *DB, most int64) func() bool {
	asked := uint64(0) // that they be written, when the log ended there
	return func() bool {
		number, err := flushed(d.db)
		if err != nil || d.fault.Get() != nil {
			return false // other calls report it; what the tables of a poisoned store have is unknown
		}
		d.log.Release(number)
		size := d.log.Size()
		if size >= most/2 && number >= asked {
			d.commit.Lock() // what the log has is applied, so that it is what is written
			asked = d.log.Last()
			d.commit.Unlock()
			_ = d.fault.Guard(func() error {
				_, err := d.db.AsyncFlush()
				return err
			})
		}
		return size >= most
	}
}

// flush writes everything that is applied to the tables, and waits for that, unless they can't be written. What is closed when a
// store begins to close ends the wait, too.
func flush(ctx context.Context, d *DB, closing <-chan struct{}) error {
	var done <-chan struct{}
	err := d.fault.Guard(func() (err error) {
		done, err = d.db.AsyncFlush()
		return err
	})
	if err != nil {
		return err
	}
	for {
		select {
		case <-done:
			return nil
		default:
		}
		changed, failing := d.gate.State()
		if failing != nil {
			return workaround.Full(fmt.Errorf("the tables can't be written: %w", failing))
		}
		select {
		case <-done:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return kv.ErrClosed
		case <-d.fault.Done():
			return d.fault.Get()
		}
	}
}

// drainLog writes everything to the tables of a store that closes, so that opening it needs no log. If the tables can't be
// written, the log still has it.
func drainLog(d *DB) {
	if d.fault.Get() != nil {
		return
	}
	after, err := flushed(d.db)
	if err != nil || after == d.log.Last() || flush(context.Background(), d, nil) != nil {
		return
	}
	if after, err = flushed(d.db); err == nil && d.fault.Get() == nil {
		d.log.Release(after)
	}
}

// checkpoint makes a copy of the newest state of d in a directory: the tables, with everything in them,
// and an empty log.
func checkpoint(ctx context.Context, d *DB, dir string) error {
	d.commit.Lock() // what the log has is applied
	fs, after := d.fence.FS, d.log.Last()
	d.commit.Unlock()
	if err := flush(ctx, d, d.life.Closing()); err != nil {
		return err
	}
	if err := d.fault.Guard(func() error { return d.db.Checkpoint(dir) }); err != nil {
		return err
	}
	logs := fs.PathJoin(dir, logDir)
	err := removeLogs(fs, dir)
	if err == nil {
		err = fs.MkdirAll(logs, workaround.DirMode)
	}
	if err == nil {
		err = wal.Create(wal.Options{FS: fs, Dir: logs}, after)
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		err = errors.Join(err, fs.RemoveAll(dir))
	}
	return err
}

// readLog returns a file system in which what is in the log of a store, but not yet in its tables, is
// in a log of Pebble's, or nil if there is nothing. A store that is only read can't take it in any
// other way: Pebble replays its own log into memory. d.db is its Pebble without that. With Options.WithoutLogRest a log that is damaged is
// read up to there; see logRest.
func readLog(d *DB, disk vfs.FS, opts *Options) (vfs.FS, error) {
	db, logs, withoutRest := d.db, disk.PathJoin(d.dir, logDir), opts.WithoutLogRest != nil
	after, err := flushed(db)
	if withoutRest && pebble.IsCorruptionError(err) {
		// What of the log the tables have isn't known, so nothing of it can be put on top of them.
		d.rest = &logRest{cause: workaround.Corrupt(err), disk: disk}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	replay, err := workaround.NewReplay(db, disk, d.dir, logs)
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
	case opts.records != nil:
		last, err = takeRecords(opts.records, after, add)
	case withoutRest:
		last, err = readBegin(&d.rest, disk, logs, after, add)
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
