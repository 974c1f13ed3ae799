package memkv

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/tidwall/btree"
)

var _, _ kv.RangesScanner = (*engine)(nil), (*snapshot)(nil)

// ScanRanges yields the entries of several ranges of the state at the start of the
// iteration. See kv.RangesScanner.
func (db *engine) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return reading(ctx, db, func(tree *btree.BTreeG[kv.Entry], yield func(kv.Entry, error) bool) {
		db.scanRanges(ctx, tree, ranges, yield)
	})
}

// ScanRanges is kv.RangesScanner's.
func (s *snapshot) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := s.check(ctx); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		s.db.scanRanges(ctx, s.tree, ranges, yield)
	}
}

// scanRanges yields the entries of ranges that tree, which must not change, holds.
func (db *engine) scanRanges(ctx context.Context, tree *btree.BTreeG[kv.Entry], ranges []kv.Range, yield func(kv.Entry, error) bool) {
	on := true
	for _, r := range ranges {
		db.scan(ctx, tree, r, func(e kv.Entry, err error) bool {
			on = yield(e, err) && err == nil
			return on
		})
		if !on {
			return
		}
	}
}
