package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// A snapshot is a kv.Snapshot.
//
// Its second and later reads go through iterators that are kept: Pebble's Get
// makes one for every call, with an allocation once the key is in a table, and
// an iterator that is asked for ascending keys finds the next one from where it
// is. They hold on to the tables of their time, so they end with the snapshot.
type snapshot struct {
	r      *reader
	snap   workaround.Pin
	closed atomic.Bool
	warm   atomic.Bool // there was a read

	mu   sync.Mutex
	idle []*pebble.Iterator // +checklocks:mu
}

func (s *snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if s.closed.Load() {
		return dst, kv.ErrClosed
	}
	if err := s.r.begin(ctx); err != nil {
		return dst, err
	}
	defer s.r.life.Leave()
	if !s.warm.Swap(true) {
		return s.r.get(s.snap.Snapshot, key, dst)
	}
	it, err := s.iterator()
	if err != nil {
		return dst, s.r.verdict(err)
	}
	defer s.keep(it)
	return s.r.seek(it, key, dst)
}

// seek appends the value of key, as it finds it.
func (r *reader) seek(it *pebble.Iterator, key, dst []byte) ([]byte, error) {
	if len(key) == 0 || isOwn(key) {
		return dst, kv.ErrNotFound // no store has the empty one, and Pebble's debug builds trip over it
	}
	// The prefix of a key is all of it, so filters keep this from looking for a
	// missing key in vain.
	if !it.SeekPrefixGE(key) || !bytes.Equal(it.Key(), key) {
		if err := r.verdict(it.Error()); err != nil {
			return dst, err
		}
		return dst, kv.ErrNotFound
	}
	v, err := it.ValueAndErr()
	if err := r.verdict(err); err != nil {
		return dst, err
	}
	return append(dst, v...), nil
}

// iterator returns an iterator over everything, for the caller alone. keep takes it back.
func (s *snapshot) iterator() (*pebble.Iterator, error) {
	s.mu.Lock()
	n := len(s.idle)
	if n > 0 {
		defer s.mu.Unlock()
		it := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return it, nil
	}
	s.mu.Unlock()
	return s.snap.NewIter(nil)
}

func (s *snapshot) keep(it *pebble.Iterator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, it)
}

func (s *snapshot) Scan(ctx context.Context, rng kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if s.closed.Load() {
			yield(kv.Entry{}, kv.ErrClosed)
			return
		}
		s.r.scan(ctx, s.snap.Snapshot, rng, yield)
	}
}

func (s *snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock()
	var err error
	for _, it := range s.idle {
		// An iterator reports its last read's error again, and the reader has it.
		failed := it.Error() != nil
		if cerr := it.Close(); !failed {
			err = errors.Join(err, cerr)
		}
	}
	s.idle = nil
	s.mu.Unlock()
	err = errors.Join(err, s.r.newest.Unpin(s.snap))
	if rerr := s.r.release(); rerr != nil {
		return rerr
	}
	return wrap(err)
}

// snapshot pins the newest state.
func (r *reader) snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.life.Leave()
	r.life.Pin()
	return &snapshot{r: r, snap: r.newest.Pin()}, nil
}
