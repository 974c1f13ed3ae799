package pgkv

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
)

// A cleared knows of each key which of the ranges that a commit clears is the last one
// with it, in logarithmic time: a commit may clear a million of them.
type cleared struct {
	// bounds are those of the ranges, ascending; last is for the keys from one to the
	// next the number of the last operation that clears them, −1 for none.
	bounds [][]byte
	last   []int
	skip   []int // scratch: the next place that may have no number yet
}

func (c *cleared) reset() {
	clear(c.bounds)
	c.bounds, c.last, c.skip = c.bounds[:0], c.last[:0], c.skip[:0]
}

// paint takes ranges in the order of the operations, whose numbers are their Limit.
func (c *cleared) paint(ranges []kv.Range) {
	for i := range ranges {
		c.bounds = append(c.bounds, notNil(ranges[i].Start), ranges[i].End)
	}
	slices.SortFunc(c.bounds, bytes.Compare)
	c.bounds = slices.CompactFunc(c.bounds, bytes.Equal)
	for i := range c.bounds {
		c.last, c.skip = append(c.last, -1), append(c.skip, i)
	}
	// The last one first: what has a number keeps it.
	for _, r := range slices.Backward(ranges) {
		end := c.find(r.End)
		for i := c.free(c.find(r.Start)); i < end; i = c.free(i) {
			c.last[i], c.skip[i] = r.Limit, i+1
		}
	}
}

// free returns the first place from i on without a number.
func (c *cleared) free(i int) int {
	for i < len(c.skip) && c.skip[i] != i {
		if next := c.skip[i]; next < len(c.skip) {
			c.skip[i] = c.skip[next] // halves the way for the next one
		}
		i = c.skip[i]
	}
	return i
}

// find returns the place of the last bound up to key, −1 for none.
func (c *cleared) find(key []byte) int {
	i, found := slices.BinarySearchFunc(c.bounds, key, bytes.Compare)
	if found {
		return i
	}
	return i - 1
}

// by returns the number of the last operation that clears key, −1 for none.
func (c *cleared) by(key []byte) int {
	if i := c.find(key); i >= 0 {
		return c.last[i]
	}
	return -1
}

// merge sorts ranges, and makes one of those that overlap or touch.
func merge(ranges []kv.Range) []kv.Range {
	slices.SortFunc(ranges, func(a, b kv.Range) int {
		return cmp.Or(bytes.Compare(a.Start, b.Start), bytes.Compare(a.End, b.End))
	})
	n := 0
	for i, r := range ranges {
		if i > 0 && bytes.Compare(r.Start, ranges[n-1].End) <= 0 {
			if bytes.Compare(r.End, ranges[n-1].End) > 0 {
				ranges[n-1].End = r.End
			}
			continue
		}
		ranges[n] = r
		n++
	}
	clear(ranges[n:])
	return ranges[:n]
}

// notNil returns b, or an empty slice that isn't NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
