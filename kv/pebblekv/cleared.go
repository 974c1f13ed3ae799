package pebblekv

import (
	"slices"

	"github.com/greenroomdb/greenroom/kv"
)

// maxCleared is how many ranges are kept that rows may be in, and maxClearedKey how many bytes
// of their bounds: keys that are remembered are not longer.
const (
	maxCleared    = 16
	maxClearedKey = 1024
)

// cleared are the last ranges that were cleared, in which there may be rows that are
// remembered. To look for them takes as long as reading many, so it is done for several ranges
// at once.
type cleared struct {
	ranges []clearedRange
	ops    uint64 // counts operations that were applied
}

// A clearedRange is [start, end), whose rows that were set before op are no more.
type clearedRange struct {
	start, end []byte
	op         uint64
}

// gone reports whether a row that was set by an operation was cleared with a range.
func (m *cleared) gone(key string, op uint64) bool {
	for i := range m.ranges {
		r := &m.ranges[i]
		if op < r.op && string(r.start) <= key && key < string(r.end) {
			return true
		}
	}
	return false
}

// clear notes that the rows of [start, end) are gone. It calls forget, which forgets those that
// are, when too many ranges are noted.
func (m *cleared) clear(start, end []byte, forget func()) {
	n := len(m.ranges)
	if n == maxCleared {
		forget()
		n = 0
	}
	m.ranges = slices.Grow(m.ranges[:n], 1)[:n+1]
	// No row has a longer key, so more of the bounds makes no difference.
	start, end = start[:min(len(start), maxClearedKey+1)], end[:min(len(end), maxClearedKey+1)]
	r := &m.ranges[n] // whose memory served another before
	r.start, r.end, r.op = append(r.start[:0], start...), append(r.end[:0], end...), m.ops
}

// hasRanges reports whether what c is encoded to depends on what is stored.
func hasRanges(c *kv.Commit) bool { return ranges(c) > 0 }

// ranges counts the ranges that c clears.
func ranges(c *kv.Commit) (n int) {
	for i := range c.Ops {
		if c.Ops[i].Kind == kv.OpClearRange {
			n++
		}
	}
	return n
}
