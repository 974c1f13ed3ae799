package memkv

import (
	"bytes"
	"context"
	"iter"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/tidwall/btree"
)

// ctxEvery is how many entries a scan yields between two looks at its context:
// rarely enough to cost nothing, often enough to stop a long scan promptly.
const ctxEvery = 64

// scan yields the entries of r that tree, which must not change, holds.
func (db *engine) scan(ctx context.Context, tree *btree.BTreeG[kv.Entry], r kv.Range, yield func(kv.Entry, error) bool) {
	if r.End != nil && bytes.Compare(r.Start, r.End) >= 0 {
		return
	}
	it := tree.Iter()
	defer it.Release()
	step := it.Next
	if r.Reverse {
		step = it.Prev
	}
	n := 0
	for ok := first(&it, r); ok && inside(it.Item().Key, r); ok = step() {
		if n%ctxEvery == ctxEvery-1 {
			if err := db.check(ctx); err != nil {
				yield(kv.Entry{}, err)
				return
			}
		}
		if !yield(it.Item(), nil) {
			return
		}
		if n++; n == r.Limit {
			return
		}
	}
}

// first moves it to the first entry of r in r's direction, if there is one.
func first(it *btree.IterG[kv.Entry], r kv.Range) bool {
	switch {
	case !r.Reverse && len(r.Start) == 0:
		return it.First()
	case !r.Reverse:
		return it.Seek(kv.Entry{Key: r.Start})
	case r.End != nil && it.Seek(kv.Entry{Key: r.End}):
		return it.Prev()
	}
	return it.Last()
}

// inside reports whether key is within the bound that r's direction runs into.
func inside(key []byte, r kv.Range) bool {
	if r.Reverse {
		return bytes.Compare(key, r.Start) >= 0
	}
	return r.End == nil || bytes.Compare(key, r.End) < 0
}

// A snapshot is a Reader of a frozen tree.
type snapshot struct {
	db     *engine
	tree   *btree.BTreeG[kv.Entry]
	closed atomic.Bool
}

func (s *snapshot) check(ctx context.Context) error {
	if s.closed.Load() {
		return kv.ErrClosed
	}
	return s.db.check(ctx)
}

func (s *snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := s.check(ctx); err != nil {
		return dst, err
	}
	e, ok := s.tree.Get(kv.Entry{Key: key})
	if !ok {
		return dst, kv.ErrNotFound
	}
	return append(dst, e.Value...), nil
}

func (s *snapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := s.check(ctx); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		s.db.scan(ctx, s.tree, r, yield)
	}
}

func (s *snapshot) Close() error {
	s.closed.Store(true)
	return nil
}
