package faultkv

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
)

var _, _ kv.RangesScanner = (*Engine)(nil), (*snapshot)(nil)

// ScanRanges implements kv.RangesScanner; it is nil if the engine below doesn't. It counts
// as one Scan, and meets BeforeScan once, with the first range.
func (e *Engine) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return e.scanRanges(ctx, e.below, ranges, false)
}

func (s *snapshot) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return s.e.scanRanges(ctx, s.below, ranges, true)
}

func (e *Engine) scanRanges(ctx context.Context, from kv.Reader, ranges []kv.Range, snap bool) iter.Seq2[kv.Entry, error] {
	below := kv.ScanRanges(ctx, from, ranges)
	if below == nil {
		return nil
	}
	return func(yield func(kv.Entry, error) bool) {
		e.scans.Add(1)
		var r kv.Range
		if len(ranges) > 0 {
			r = ranges[0]
		}
		if err := e.at(ctx, Op{Point: BeforeScan, Range: r, Snapshot: snap}); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		below(func(entry kv.Entry, err error) bool {
			if err == nil {
				err = e.at(ctx, Op{Point: BeforeEntry, Key: entry.Key, Range: r, Snapshot: snap})
			}
			if err != nil {
				yield(kv.Entry{}, err)
				return false
			}
			return yield(entry, nil)
		})
	}
}
