package pebblekv

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

// Snapshot pins the newest state. See kv.Engine. It stays readable until it is
// closed or the DB is.
func (d *DB) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	defer d.life.leave()
	d.life.pin()
	snap, shared := d.pinned()
	return &snapshot{d: d, snap: snap, shared: shared}, nil
}

// A snapshot is a kv.Snapshot of a DB.
//
// Its second and later reads go through cursors that are kept: Pebble's Get
// makes an iterator for every call, with an allocation once the key is in a table.
// They hold on to the tables of their time, so they end with the snapshot.
type snapshot struct {
	d      *DB
	snap   *pebble.Snapshot
	shared *before // if others use snap too
	closed atomic.Bool
	warm   atomic.Bool // there was a read

	mu   sync.Mutex
	idle []*cursor // +checklocks:mu
}

func (s *snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if s.closed.Load() {
		return dst, kv.ErrClosed
	}
	if err := s.d.begin(ctx); err != nil {
		return dst, err
	}
	defer s.d.life.leave()
	if !s.warm.Swap(true) {
		return s.d.get(s.snap, key, dst)
	}
	c, err := s.cursor()
	if err != nil {
		return dst, s.d.verdict(err)
	}
	defer s.keep(c)
	return s.d.seek(c, key, dst)
}

// cursor returns one that nobody else uses.
func (s *snapshot) cursor() (*cursor, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		defer s.mu.Unlock()
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c, nil
	}
	s.mu.Unlock()
	it, err := s.snap.NewIter(nil)
	if err != nil {
		return nil, err
	}
	return &cursor{it: it}, nil
}

func (s *snapshot) keep(c *cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, c)
}

func (s *snapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if s.closed.Load() {
			yield(kv.Entry{}, kv.ErrClosed)
			return
		}
		s.d.scan(ctx, s.snap, r, yield)
	}
}

func (s *snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock()
	var err error
	for _, c := range s.idle {
		// An iterator reports its last read's error again, and the reader has it.
		failed := c.it.Error() != nil
		if cerr := c.it.Close(); !failed {
			err = errors.Join(err, cerr)
		}
	}
	s.idle = nil
	s.mu.Unlock()
	if s.shared != nil {
		err = errors.Join(err, s.d.passage.drop(s.shared))
	} else {
		err = errors.Join(err, s.snap.Close())
	}
	if rerr := s.d.release(); rerr != nil {
		return rerr
	}
	return wrap(err)
}
