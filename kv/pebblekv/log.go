package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"

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

// A journal is the order in which batches are applied: each goes to the log, and then to Pebble.
type journal struct {
	*store
	fileBytes int64 // to which size a file of the log is filled
	most      int64 // how many bytes of the log the tables may lack before writers wait

	// order orders commits. Every commit takes it, even one without checks, because no other commit
	// may come between the checks of one and its application. It isn't held while waiting for the
	// disk, except when the log goes on in the next file, and in reserve.
	order  sync.Mutex
	logged int64   // bytes that the log took since the gate's watcher was last poked for that; guarded by order
	clock  clock   // guarded by order
	held   Held    // of the log; guarded by order
	number [8]byte // memory for that of a batch; guarded by order
}

// put writes a batch, with its time, to the log and applies it. order is held.
func (j *journal) put(b *pebble.Batch) (number uint64, err error) {
	if b.Empty() {
		return j.log.Last(), nil
	}
	if err := j.clock.stamp(b); err != nil {
		return 0, err
	}
	if number, err = j.log.Append(b.Repr()[seqNumBytes:]); err != nil {
		return 0, err
	}
	j.logged += int64(b.Len())
	j.room.wrote(int64(b.Len()))
	err = j.fault.Guard(func() error {
		binary.BigEndian.PutUint64(j.number[:], number)
		if err := b.Set(numberKey, j.number[:], nil); err != nil {
			return err
		}
		return j.newest.Apply(b)
	})
	if err != nil {
		j.fault.Set(err) // it is in the log, and not in the tables
	}
	if j.logged > j.fileBytes/2 || j.room.low.Load() {
		j.logged = 0
		if j.log.Size() >= j.most {
			j.gate.Shut()
		}
		j.gate.Poke()
	}
	return number, err
}

// lacking returns a function that tells the log how far the tables have its records, and flushes them
// once they lack half of most, in bytes of the log, or anything while the disk has little room: removals give none back before. The function returns whether they lack most, and
// must not be called concurrently.
func (j *journal) lacking(most int64) func() bool {
	asked := uint64(0) // that they be written, when the log ended there
	return func() bool {
		number, err := flushed(j.db)
		if err != nil || j.fault.Get() != nil {
			return false // other calls report it; what the tables of a poisoned store have is unknown
		}
		j.log.Release(number)
		size := j.log.Size()
		if (size >= most/2 || size > 0 && j.room.low.Load()) && number >= asked {
			j.order.Lock() // every record up to Last is applied, so the flush includes it
			asked = j.log.Last()
			j.order.Unlock()
			_ = j.fault.Guard(func() error {
				_, err := j.db.AsyncFlush()
				return err
			})
		}
		return size >= most
	}
}

// checkpoint makes a copy of the newest state in a directory: the tables, with everything in them,
// and an empty log.
func (j *journal) checkpoint(ctx context.Context, dir string) error {
	j.order.Lock() // every record up to Last is applied
	fs, after := j.fence.FS, j.log.Last()
	j.order.Unlock()
	if err := j.flush(ctx, j.life.Closing()); err != nil {
		return err
	}
	if err := j.fault.Guard(func() error { return j.db.Checkpoint(dir) }); err != nil {
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
