package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
	"github.com/greenroomdb/greenroom/metrics"
)

// A store is a directory that is open: Pebble, from behind what works around it, and the log. All that reads, commits and copies
// uses it.
type store struct {
	db     *pebble.DB
	newest *workaround.Newest
	log    *wal.Log // nil in a store that is only read; Append wants a journal's order

	dir      string
	onDisk   bool // not in a test's memory
	readOnly bool
	lock     *pebble.Lock
	meter    metrics.Meter

	fence     *workaround.Fence
	fault     *workaround.Fault
	gate      *workaround.Gate
	compactor *workaround.Compactor // of db
	life      *workaround.Life
	room      *room
	small     int64      // what stays free of a small disk, else 0: see smallStore
	reclaimer *reclaimer // nil in a store that is only read, and before it is open
}

// free returns how many bytes the disk has free for the process. See kv.Spacer.
func (s *store) free() (free int64, known bool, err error) {
	u, err := s.fence.FS.GetDiskUsage(s.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, false, nil
	}
	return int64(min(u.AvailBytes, math.MaxInt64)), err == nil, wrap(err)
}

// behind returns how many bytes of what is written are in no table yet.
func (s *store) behind() int64 { return s.log.Size() }

// roomTurned is called when the disk begins or ceases to have little room.
func (s *store) roomTurned() {
	if !s.room.low.Load() {
		s.compactor.Retry()
	}
	s.gate.Poke()
}

// begin starts a call: s.life.leave must follow when it returned nil.
func (s *store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.life.Enter(); err != nil {
		return err
	}
	if err := s.fault.Get(); err != nil {
		s.life.Leave()
		return err
	}
	return nil
}

// verdict is what a call returns that got err from Pebble: on a poisoned store
// nothing that Pebble says counts any more.
func (s *store) verdict(err error) error {
	if bad := s.fault.Get(); bad != nil {
		return bad
	}
	return wrap(err)
}

// release lets go of a pin, and of the store when it was the last one.
func (s *store) release() error {
	if s.life.Unpin() {
		return s.teardown()
	}
	return nil
}

// teardown closes Pebble and gives the directory back. Nothing uses s.db then.
func (s *store) teardown() error {
	err := s.closePebble()
	if lerr := s.lock.Close(); err == nil {
		err = wrap(lerr)
	}
	if bad := s.fault.Get(); bad != nil {
		return bad
	}
	return err
}

// closePebble closes Pebble and the log.
func (s *store) closePebble() error {
	return wrap(s.fault.Close(func() (err error) {
		s.gate.Unwatched()
		s.compactor.Stop()
		if s.reclaimer != nil {
			s.reclaimer.stop()
		}
		s.newest.Close()
		if s.log != nil {
			s.drainLog()
			if bad := s.fault.Get(); bad != nil {
				s.log.Fail(bad)
			}
			err = s.log.Close()
		}
		return errors.Join(err, s.fault.Guard(s.db.Close))
	}))
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

// flush writes everything that is applied to the tables, and waits for that, unless they can't be written. What is closed when a
// store begins to close ends the wait, too.
func (s *store) flush(ctx context.Context, closing <-chan struct{}) error {
	var done <-chan struct{}
	err := s.fault.Guard(func() (err error) {
		done, err = s.db.AsyncFlush()
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
		changed, failing := s.gate.State()
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
		case <-s.fault.Done():
			return s.fault.Get()
		}
	}
}

// drainLog writes everything to the tables of a store that closes, so that opening it needs no log. If the tables can't be
// written, the log still has it.
func (s *store) drainLog() {
	if s.fault.Get() != nil {
		return
	}
	after, err := flushed(s.db)
	if err != nil || after == s.log.Last() || s.flush(context.Background(), nil) != nil {
		return
	}
	if after, err = flushed(s.db); err == nil && s.fault.Get() == nil {
		s.log.Release(after)
	}
}
