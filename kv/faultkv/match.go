package faultkv

import (
	"bytes"

	"github.com/greenroomdb/greenroom/kv"
)

// A Match selects operations. It must not keep anything of the Op.
type Match func(Op) bool

// Key matches the operations that touch key: see Op.touches.
func Key(key []byte) Match {
	start := bytes.Clone(key)
	end := append(bytes.Clone(key), 0) // the next key
	return func(op Op) bool { return op.touches(start, end) }
}

// Prefix matches the operations that touch a key which begins with prefix.
func Prefix(prefix []byte) Match {
	start, end := bytes.Clone(prefix), bytes.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		end = nil // no key is above all that begin with prefix
	} else {
		end[len(end)-1]++
	}
	return func(op Op) bool { return op.touches(start, end) }
}

// touches reports whether op reads, checks or changes what is stored in [start,
// end), or would: the whole range of a Scan counts, whatever it contains, and so does
// the range of an OpClearRange. A nil end means no bound. A snapshot, a sync and a
// question for an outcome touch no key.
func (op Op) touches(start, end []byte) bool {
	switch op.Point {
	case BeforeGet, BeforeEntry:
		return inside(op.Key, start, end)
	case BeforeScan:
		return overlap(op.Range.Start, op.Range.End, start, end)
	}
	if op.Commit == nil {
		return false
	}
	for i := range op.Commit.Checks {
		if inside(op.Commit.Checks[i].Key, start, end) {
			return true
		}
	}
	for i := range op.Commit.Ops {
		o := &op.Commit.Ops[i]
		if o.Kind == kv.OpClearRange && overlap(o.Key, o.Value, start, end) ||
			o.Kind != kv.OpClearRange && inside(o.Key, start, end) {
			return true
		}
	}
	return false
}

func inside(key, start, end []byte) bool {
	return bytes.Compare(key, start) >= 0 && below(key, end)
}

// below reports whether key is under the bound end; nil means no bound.
func below(key, end []byte) bool { return end == nil || bytes.Compare(key, end) < 0 }

// overlap reports whether the two ranges have room for a common key.
func overlap(start, end, otherStart, otherEnd []byte) bool {
	return below(start, end) && below(otherStart, otherEnd) && below(start, otherEnd) && below(otherStart, end)
}
