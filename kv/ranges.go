package kv

import (
	"bytes"
	"context"
	"iter"
)

// A RangesScanner is an optional capability of a Reader, an Engine or a Snapshot:
// several ranges of one state in one go. Of an engine across a network that is one
// round trip for all of them, where pages that lie apart would take one each; near
// engines needn't offer it.
type RangesScanner interface {
	// ScanRanges yields the entries of the first range, then those of the second, and
	// so on, each with the limit and in the direction of its own, as Scan does. All
	// are of one state, fixed when iteration starts. The slices of ranges must not
	// change until the iteration ends. It returns nil when it can't: so does a
	// decorator of an engine that isn't a RangesScanner.
	ScanRanges(ctx context.Context, ranges []Range) iter.Seq2[Entry, error]
}

// ScanRanges calls the method of a Reader that is a RangesScanner. For every other one
// it returns nil.
func ScanRanges(ctx context.Context, r Reader, ranges []Range) iter.Seq2[Entry, error] {
	if s, ok := r.(RangesScanner); ok {
		return s.ScanRanges(ctx, ranges)
	}
	return nil
}

// PrefixEnd returns the smallest key above all that begin with prefix, nil if every key above prefix does: the end of the range of those
// that begin with it. It shares no memory with prefix.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
