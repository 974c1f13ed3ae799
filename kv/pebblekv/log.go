package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
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
		err := setRepr(b, number, batch, 0)
		if err == nil {
			err = d.guard(func() error { return d.db.Apply(b, pebble.NoSync) })
		}
		return errors.Join(err, b.Close())
	})
	if err != nil || d.log.Last() == after {
		return ofLog(err)
	}
	// While the store is being opened a failure of the disk is the fault's alone to tell.
	if err := errors.Join(d.guard(d.db.Flush), d.fault.get()); err != nil {
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
		FS: disk, Dir: disk.PathJoin(d.dir, logDir), FileBytes: d.logFile, Failed: d.fault.set, Hold: d.held.From, KeepBytes: d.held.Most,
		Synced: func() { d.fence.meter.Count(metricLogFsyncs, 1) },
		Wrote:  func(bytes int) { d.fence.meter.Count(metricLogBytes, int64(bytes)) },
	}
}

// makeLog makes an empty log unless one is there.
func makeLog(opts wal.Options) error {
	if err := opts.FS.MkdirAll(opts.Dir, dirMode); err != nil {
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

// setRepr has b be a batch of the log, with its number and a sequence number.
func setRepr(b *pebble.Batch, number uint64, batch []byte, seqNum uint64) error {
	repr := make([]byte, seqNumBytes, seqNumBytes+len(batch)+numberBytes)
	binary.LittleEndian.PutUint64(repr, seqNum)
	if err := b.SetRepr(append(repr, batch...)); err != nil {
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
		if err != nil || d.fault.get() != nil {
			return false // other calls report it; what the tables of a poisoned store have is unknown
		}
		d.log.Release(number)
		size := d.log.Size()
		if size >= most/2 && number >= asked {
			d.commit.Lock() // what the log has is applied, so that it is what is written
			asked = d.log.Last()
			d.commit.Unlock()
			_ = d.guard(func() error {
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
	err := d.guard(func() (err error) {
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
		changed, failing := d.gate.state()
		if failing != nil {
			return full(fmt.Errorf("the tables can't be written: %w", failing))
		}
		select {
		case <-done:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return kv.ErrClosed
		case <-d.fault.done:
			return d.fault.get()
		}
	}
}

// drainLog writes everything to the tables of a store that closes, so that opening it needs no log. If the tables can't be
// written, the log still has it.
func drainLog(d *DB) {
	if d.fault.get() != nil {
		return
	}
	after, err := flushed(d.db)
	if err != nil || after == d.log.Last() || flush(context.Background(), d, nil) != nil {
		return
	}
	if after, err = flushed(d.db); err == nil && d.fault.get() == nil {
		d.log.Release(after)
	}
}

// checkpoint makes a copy of the newest state of d in a directory: the tables, with everything in them,
// and an empty log.
func checkpoint(ctx context.Context, d *DB, dir string) error {
	d.commit.Lock() // what the log has is applied
	fs, after := d.fence.FS, d.log.Last()
	d.commit.Unlock()
	if err := flush(ctx, d, d.life.closing); err != nil {
		return err
	}
	if err := d.guard(func() error { return d.db.Checkpoint(dir) }); err != nil {
		return err
	}
	logs := fs.PathJoin(dir, logDir)
	err := removeLogs(fs, dir)
	if err == nil {
		err = fs.MkdirAll(logs, dirMode)
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

// copyLog is a file system in which a store has, besides what is there, a log of Pebble's.
type copyLog struct {
	vfs.FS
	dir, name string
	mem       *vfs.MemFS // with the log alone, by its name
}

// List adds the log to the directory of the store.
func (c *copyLog) List(dir string) ([]string, error) {
	names, err := c.FS.List(dir)
	if err == nil && dir == c.dir {
		names = append(names, c.name)
	}
	return names, err
}

// Open opens the log, too.
func (c *copyLog) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if name == c.PathJoin(c.dir, c.name) {
		return c.mem.Open(c.name, opts...)
	}
	return c.FS.Open(name, opts...)
}

// Stat says how long the log is, too.
func (c *copyLog) Stat(name string) (vfs.FileInfo, error) {
	if name == c.PathJoin(c.dir, c.name) {
		return c.mem.Stat(c.name)
	}
	return c.FS.Stat(name)
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
		d.rest = &logRest{cause: corrupt(err), disk: disk}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seqNum, err := nextSeqNum(db)
	if err != nil {
		return nil, err
	}
	name, err := freeLogName(disk, d.dir, logs)
	if err != nil {
		return nil, err
	}
	c := &copyLog{FS: disk, dir: logs, name: name, mem: vfs.NewMem()}
	f, err := c.mem.Create(c.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := record.NewWriter(f)
	add := func(number uint64, batch []byte) error {
		b := db.NewBatch()
		if err := setRepr(b, number, batch, seqNum); err != nil {
			return errors.Join(err, b.Close())
		}
		seqNum += uint64(b.Count())
		_, err := w.WriteRecord(b.Repr())
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
	if err = errors.Join(err, w.Close(), f.Close()); err != nil || last == after {
		return nil, err
	}
	return c, nil
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

// nextSeqNum returns a sequence number that is larger than all in the tables.
func nextSeqNum(db *pebble.DB) (uint64, error) {
	levels, err := db.SSTables()
	seqNum := uint64(1) << 8 // Pebble has no rows below 10
	for _, tables := range levels {
		for i := range tables {
			seqNum = max(seqNum, uint64(tables[i].LargestSeqNum)+1)
		}
	}
	return seqNum, err
}

// freeLogName returns the name of a log of Pebble's behind all numbers that it uses. Pebble makes an empty log of its own while it
// is opened, which a crash may leave among ours.
func freeLogName(disk vfs.FS, dirs ...string) (string, error) {
	newest := uint64(0)
	for _, in := range dirs {
		names, err := disk.List(in)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a log may be lost
			return "", err
		}
		for _, name := range names {
			if digits := strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }); len(digits) > 0 {
				n, _ := strconv.ParseUint(digits[0], 10, 64) // 0 for other names
				newest = max(newest, n)
			}
		}
	}
	return fmt.Sprintf("%06d.log", newest+1), nil
}
