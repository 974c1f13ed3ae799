package overlay

import (
	"bytes"

	"github.com/tidwall/btree"
)

// A Cursor goes through the points of a range. The Map must not be written to
// meanwhile: use one of Freeze.
type Cursor[P any] struct {
	it         btree.IterG[Point[P]]
	start, end []byte
	reverse    bool
	valid      bool
}

// Cursor returns one at the first point in [start, end), or at the last one; a
// nil end means no bound.
func (m *Map[P]) Cursor(start, end []byte, reverse bool) Cursor[P] {
	c := Cursor[P]{start: start, end: end, reverse: reverse}
	if m.points == nil {
		return c
	}
	c.it = m.points.Iter()
	switch {
	case !reverse:
		c.valid = c.it.Seek(Point[P]{Key: start})
	case end != nil && c.it.Seek(Point[P]{Key: end}):
		c.valid = c.it.Prev()
	default:
		c.valid = c.it.Last()
	}
	c.bound()
	return c
}

// bound ends the cursor when it has left its range.
func (c *Cursor[P]) bound() {
	if !c.valid {
		return
	}
	key := c.it.Item().Key
	c.valid = bytes.Compare(key, c.start) >= 0 && (c.end == nil || bytes.Compare(key, c.end) < 0)
}

// Valid reports whether there is a point.
func (c *Cursor[P]) Valid() bool { return c.valid }

// Point returns the point; the cursor must be Valid.
func (c *Cursor[P]) Point() Point[P] { return c.it.Item() }

// Next goes on to the next point, in the cursor's direction.
func (c *Cursor[P]) Next() {
	if c.reverse {
		c.valid = c.it.Prev()
	} else {
		c.valid = c.it.Next()
	}
	c.bound()
}
