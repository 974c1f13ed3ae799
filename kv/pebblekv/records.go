package pebblekv

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// ErrGone is what Records.Follow and Follower.Next return if the log doesn't have the record any more.
var ErrGone = wal.ErrGone

// Records is the log of a store that is open for writing: every commit in order, for what follows the store. Its methods are safe for
// concurrent use.
type Records struct{ in *journal }

// Last returns the number of the newest record.
func (r *Records) Last() uint64 { return r.in.log.Last() }

// Synced returns up to which number the records are on stable storage.
func (r *Records) Synced() uint64 { return r.in.log.Synced() }

// SizeFrom returns how many bytes the files of the log have from the one with a record on.
func (r *Records) SizeFrom(number uint64) int64 { return r.in.log.SizeFrom(number) }

// Follow returns a Follower of the records from number on. It must be closed, before the store is. The error is ErrGone if the log
// has no such record, and it isn't the next one either.
func (r *Records) Follow(number uint64) (*Follower, error) {
	in, err := r.in.log.NewReader(number)
	if err != nil {
		return nil, err
	}
	return &Follower{in: in}, nil
}

// Held says what of the log is kept, as the last Hold has it; the zero Held is nothing.
func (r *Records) Held() Held {
	r.in.order.Lock()
	defer r.in.order.Unlock()
	return r.in.held
}

// Hold keeps what h says, also after the store was closed and opened again. durable says that it does so from now on; else a crash
// may leave the one before, and so may Close.
func (r *Records) Hold(h Held, durable bool) error {
	j := r.in
	j.order.Lock()
	j.held = h
	j.order.Unlock()
	j.log.Hold(h.From, h.Most)
	if !durable {
		return nil
	}
	return writeHold(j.fence.FS, j.dir, h)
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
