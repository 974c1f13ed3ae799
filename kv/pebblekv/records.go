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

// SizeFrom returns how many bytes the files of the log have from the one with a record on.
func (r *Records) SizeFrom(number uint64) int64 { return r.d.log.SizeFrom(number) }

// Follow returns a Follower of the records from number on. It must be closed, before the store is. The error is ErrGone if the log
// has no such record, and it isn't the next one either.
func (r *Records) Follow(number uint64) (*Follower, error) {
	in, err := r.d.log.NewReader(number)
	if err != nil {
		return nil, err
	}
	return &Follower{in: in}, nil
}

// Held says what of the log is kept, as the last Hold has it; the zero Held is nothing.
func (r *Records) Held() Held {
	r.d.commit.Lock()
	defer r.d.commit.Unlock()
	return r.d.held
}

// Hold keeps what h says, also after the store was closed and opened again. durable says that it does so from now on; else a crash
// may leave the one before, and so may Close.
func (r *Records) Hold(h Held, durable bool) error {
	d := r.d
	d.commit.Lock()
	d.held = h
	d.commit.Unlock()
	d.log.Hold(h.From, h.Most)
	if !durable {
		return nil
	}
	return writeHold(d.fence.FS, d.dir, h)
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

// Held is what a store keeps of its log for what follows it.
type Held struct {
	// From is from which record on, although the tables have them; 0 is nothing.
	From uint64 `json:"from"`
	// Most is how many bytes of files of the log it takes, at most: older ones go first.
	Most int64 `json:"most"`
	// For says what it is kept for, in words of the one that follows.
	For string `json:"for,omitempty"`
}

// holdName is the file of it, in the directory of the log.
const holdName = "HOLD"

// readHold returns what the store in a directory keeps: nothing if the file isn't there or can't be understood, for it costs what
// follows the log no more than to begin anew.
func readHold(disk vfs.FS, dir string) (h Held, err error) {
	f, err := disk.Open(disk.PathJoin(dir, logDir, holdName))
	if errors.Is(err, fs.ErrNotExist) {
		return Held{}, nil
	}
	if err != nil {
		return Held{}, err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return Held{}, err
	}
	if json.Unmarshal(data, &h) != nil {
		return Held{}, nil
	}
	return h, nil
}

// writeHold stores what the store in a directory keeps.
func writeHold(disk vfs.FS, dir string, h Held) error {
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
