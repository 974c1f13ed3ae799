package main

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
)

// A farEngine has an engine on this machine look like one behind a network, but for the time
// that calls take: what is above reads ahead and keeps what it has read, several ranges are
// one call, and nothing is shared within the process, since others may write too.
type farEngine struct{ kv.Engine }

var _, _ kv.RangesScanner = farEngine{}, farSnapshot{}

// Limits is kv.Engine's.
func (e farEngine) Limits() kv.Limits {
	l := e.Engine.Limits()
	l.Far = true
	return l
}

// Snapshot is kv.Engine's.
func (e farEngine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := e.Engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return farSnapshot{s}, nil
}

// ScanRanges is kv.RangesScanner's.
func (e farEngine) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		s, err := e.Engine.Snapshot(ctx)
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		more := scanAll(ctx, s, ranges, yield)
		if err := s.Close(); err != nil && more {
			yield(kv.Entry{}, err)
		}
	}
}

// A farSnapshot is one of a farEngine.
type farSnapshot struct{ kv.Snapshot }

// ScanRanges is kv.RangesScanner's.
func (s farSnapshot) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) { scanAll(ctx, s.Snapshot, ranges, yield) }
}

// scanAll yields the entries of one range after the other, and says whether more is wanted.
func scanAll(ctx context.Context, from kv.Reader, ranges []kv.Range, yield func(kv.Entry, error) bool) bool {
	for _, r := range ranges {
		for e, err := range from.Scan(ctx, r) {
			if !yield(e, err) || err != nil {
				return false
			}
		}
	}
	return true
}
