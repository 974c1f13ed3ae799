package txn

import (
	"bytes"
	"slices"
)

// merged sorts spans, of which none is empty, and makes one of those that overlap or
// touch. It may change the slice.
func merged(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.End == nil:
			return out
		case bytes.Compare(s.Start, last.End) > 0:
			out = append(out, s)
		case s.End == nil || bytes.Compare(s.End, last.End) > 0:
			last.End = s.End
		}
	}
	return out
}

// notNil is the first key as a bound that isn't confused with the end of all keys.
func notNil(start []byte) []byte {
	if start == nil {
		return []byte{}
	}
	return start
}
