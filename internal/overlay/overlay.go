// Package overlay is what a transaction has written, as a layer over a state that it
// doesn't know: for every key it says what is there now, or that the state below
// decides. kv's transactions read through it, and the committer of optimistic engines
// evaluates atomic operations in it.
//
// It is not a store: it has no versions, and nothing in it is safe for concurrent
// use.
package overlay

import (
	"bytes"

	"github.com/tidwall/btree"
)

// An opKind says what a Point is.
type opKind uint8

const (
	// Cleared: the key is missing.
	Cleared opKind = iota
	// Value: the key has Value.
	Value
	// Pending: what the key has is up to P, which package overlay doesn't look into.
	Pending
)

// A Point is the state of one key.
type Point[P any] struct {
	Key     []byte
	Value   []byte
	Pending P
	Kind    opKind
}

// A gap is a cleared range [start, end). Keys in it that have a Point are what that
// says.
type gap struct{ start, end []byte }

// A Map holds the points and cleared ranges. The zero value is empty and ready. It
// keeps all slices that it is given, and never changes what they hold.
type Map[P any] struct {
	points *btree.BTreeG[Point[P]] // nil when there are none
	// gaps are disjoint, and don't touch each other.
	gaps *btree.BTreeG[gap] // nil when there are none
}

// Small nodes: most transactions write a few keys.
const degree = 8

// Len returns the number of points.
func (m *Map[P]) Len() int {
	if m.points == nil {
		return 0
	}
	return m.points.Len()
}

// Empty reports whether nothing was ever written.
func (m *Map[P]) Empty() bool { return m.points == nil && m.gaps == nil }

// Freeze returns a copy that later writes to m don't change. It costs nothing; the
// next write to m copies what it touches.
func (m *Map[P]) Freeze() Map[P] {
	var c Map[P]
	if m.points != nil {
		c.points = m.points.Copy()
	}
	if m.gaps != nil {
		c.gaps = m.gaps.Copy()
	}
	return c
}

// Put makes p the state of p.Key.
func (m *Map[P]) Put(p Point[P]) {
	if m.points == nil {
		m.points = btree.NewBTreeGOptions(func(a, b Point[P]) bool {
			return bytes.Compare(a.Key, b.Key) < 0
		}, btree.Options{NoLocks: true, Degree: degree})
	}
	m.points.Set(p)
}

// Clear removes key.
func (m *Map[P]) Clear(key []byte) {
	m.Put(Point[P]{Key: key, Kind: Cleared})
}

// Set gives key a value.
func (m *Map[P]) Set(key, value []byte) {
	m.Put(Point[P]{Key: key, Value: value, Kind: Value})
}

// ClearRange removes the keys in [start, end), which must not be empty.
func (m *Map[P]) ClearRange(start, end []byte) {
	if m.points != nil {
		var doomed []Point[P]
		for c := m.Cursor(start, end, false); c.Valid(); c.Next() {
			doomed = append(doomed, c.Point())
		}
		for _, p := range doomed {
			m.points.Delete(p)
		}
	}
	if m.gaps == nil {
		m.gaps = btree.NewBTreeGOptions(func(a, b gap) bool {
			return bytes.Compare(a.start, b.start) < 0
		}, btree.Options{NoLocks: true, Degree: degree})
	}
	// What overlaps or touches becomes one gap.
	var old []gap
	if g, ok := m.gapFrom(start, true); ok && bytes.Compare(g.start, end) <= 0 {
		m.gaps.Ascend(g, func(g gap) bool {
			if bytes.Compare(g.start, end) > 0 {
				return false
			}
			old = append(old, g)
			return true
		})
	}
	for _, g := range old {
		if bytes.Compare(g.start, start) < 0 {
			start = g.start
		}
		if bytes.Compare(g.end, end) > 0 {
			end = g.end
		}
		m.gaps.Delete(g)
	}
	m.gaps.Set(gap{start, end})
}

// gapFrom returns the first gap that ends after key, or at key too if touching.
func (m *Map[P]) gapFrom(key []byte, touching bool) (found gap, ok bool) {
	if m.gaps == nil {
		return gap{}, false
	}
	// The one that begins before key, or else the next.
	m.gaps.Descend(gap{start: key}, func(g gap) bool {
		c := bytes.Compare(g.end, key)
		found, ok = g, c > 0 || touching && c == 0
		return false
	})
	if !ok {
		m.gaps.Ascend(gap{start: key}, func(g gap) bool {
			found, ok = g, true
			return false
		})
	}
	return found, ok
}

// gapBelow returns the last gap that begins before key; nil is beyond all keys.
func (m *Map[P]) gapBelow(key []byte) (found gap, ok bool) {
	if m.gaps == nil {
		return gap{}, false
	}
	if key == nil {
		return m.gaps.Max()
	}
	m.gaps.Descend(gap{start: key}, func(g gap) bool {
		if bytes.Equal(g.start, key) {
			return true
		}
		found, ok = g, true
		return false
	})
	return found, ok
}

// Get returns the state of key, and false when the state below decides.
func (m *Map[P]) Get(key []byte) (Point[P], bool) {
	if m.points != nil {
		if p, ok := m.points.Get(Point[P]{Key: key}); ok {
			return p, true
		}
	}
	if g, ok := m.gapFrom(key, false); ok && bytes.Compare(g.start, key) <= 0 {
		return Point[P]{Key: key, Kind: Cleared}, true
	}
	return Point[P]{}, false
}

// Gaps calls fn with the cleared ranges, ascending.
func (m *Map[P]) Gaps(fn func(start, end []byte)) {
	if m.gaps != nil {
		m.gaps.Scan(func(g gap) bool {
			fn(g.start, g.end)
			return true
		})
	}
}

// Segments cuts [start, end) at the borders of the cleared ranges, and calls fn with
// the pieces in order, or from the last to the first, until it returns false. A nil
// end means no bound. In a piece that is cleared there is nothing but points.
func (m *Map[P]) Segments(start, end []byte, reverse bool, fn func(start, end []byte, cleared bool) bool) {
	if reverse {
		m.segmentsDown(start, end, fn)
		return
	}
	for end == nil || bytes.Compare(start, end) < 0 {
		g, ok := m.gapFrom(start, false)
		if !ok || end != nil && bytes.Compare(g.start, end) >= 0 {
			fn(start, end, false)
			return
		}
		if bytes.Compare(g.start, start) > 0 {
			if !fn(start, g.start, false) {
				return
			}
			start = g.start
		}
		stop := g.end
		if end != nil && bytes.Compare(stop, end) > 0 {
			stop = end
		}
		if !fn(start, stop, true) {
			return
		}
		start = stop
	}
}

func (m *Map[P]) segmentsDown(start, end []byte, fn func(start, end []byte, cleared bool) bool) {
	for end == nil || bytes.Compare(start, end) < 0 {
		g, ok := m.gapBelow(end)
		if !ok || bytes.Compare(g.end, start) <= 0 {
			fn(start, end, false)
			return
		}
		if end == nil || bytes.Compare(g.end, end) < 0 {
			if !fn(g.end, end, false) {
				return
			}
			end = g.end
		}
		from := g.start
		if bytes.Compare(from, start) < 0 {
			from = start
		}
		if !fn(from, end, true) {
			return
		}
		end = from
		if len(end) == 0 {
			return // the first key there is: nil would mean no bound
		}
	}
}
