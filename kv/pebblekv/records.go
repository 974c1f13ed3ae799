package pebblekv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// ErrGone is what Records.Follow and Follower.Next return if the log doesn't have the record any more.
var ErrGone = wal.ErrGone

// Records is the log of a store that is open for writing: every commit in order, for what follows the store. Its methods are safe for
// concurrent use.
type Records struct{ d *DB }

// Last returns the number of the newest record.
func (r *Records) Last() uint64 { return r.d.log.Last() }

// Synced returns up to which number the records are on stable storage.
func (r *Records) Synced() uint64 { return r.d.log.Synced() }

// Follow returns a Follower of the records from number on. It must be closed, before the store is. The error is ErrGone if the log
// has no such record, and it isn't the next one either.
func (r *Records) Follow(number uint64) (*Follower, error) {
	in, err := r.d.log.NewReader(number)
	if err != nil {
		return nil, err
	}
	return &Follower{in: in}, nil
}

// Hold says that records from number on are kept although the tables have them, up to so many bytes of files of the log; older
// ones go first. A number of 0 ends that. It holds when the store is opened again, too; durable says that it does from now on, else a
// crash may leave an earlier number.
func (r *Records) Hold(number uint64, most int64, durable bool) error {
	d := r.d
	d.log.Hold(number, most)
	if !durable {
		return nil
	}
	return writeHold(d.fence.FS, d.dir, hold{number, most})
}

// A Follower reads the records that are on stable storage, in order. Its methods must not be called concurrently.
type Follower struct {
	in   *wal.Reader
	last time.Time
}

// Next returns the next record, when there is one; its batch is the Follower's until the next call. It waits until one is on stable
// storage. Errors: ErrGone, that of ctx, and kv.ErrClosed or that of the disk when there are no more.
func (f *Follower) Next(ctx context.Context) (Record, error) {
	number, batch, err := f.in.Next(ctx)
	if errors.Is(err, wal.ErrClosed) {
		return Record{}, kv.ErrClosed
	}
	if err != nil {
		return Record{}, err
	}
	if at := timeOf(batch); at.After(f.last) {
		f.last = at
	}
	return Record{number, f.last, batch}, nil
}

// Close ends the Follower.
func (f *Follower) Close() error { return f.in.Close() }

// A hold is what a store keeps of its log for others; see Records.Hold.
type hold struct {
	From uint64 `json:"from"`
	Most int64  `json:"most"`
}

// holdName is the file of it, in the directory of the log.
const holdName = "HOLD"

// readHold returns what the store in a directory keeps: nothing if the file isn't there or can't be understood, for it costs what
// follows the log no more than to begin anew.
func readHold(disk vfs.FS, dir string) (h hold, err error) {
	f, err := disk.Open(disk.PathJoin(dir, logDir, holdName))
	if errors.Is(err, fs.ErrNotExist) {
		return hold{}, nil
	}
	if err != nil {
		return hold{}, err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return hold{}, err
	}
	if json.Unmarshal(data, &h) != nil {
		return hold{}, nil
	}
	return h, nil
}

// writeHold stores what the store in a directory keeps.
func writeHold(disk vfs.FS, dir string, h hold) error {
	path := disk.PathJoin(dir, logDir, holdName)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	data, err := json.Marshal(h)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(disk, disk.PathDir(path))
	}
	if err != nil {
		return fmt.Errorf("pebblekv: what the log holds: %w", err)
	}
	return nil
}
