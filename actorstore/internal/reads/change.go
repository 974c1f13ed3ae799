package reads

import (
	"bytes"

	"github.com/greenroomdb/greenroom/batch"
)

// A Change is one engine commit of a batch. It belongs to its commit, and is used again for the next.
type Change struct {
	Seq    uint64 // its number
	Drop   bool   // it removes the actor
	Hidden bool   // it is part of a fork that isn't complete, which is read by no handle

	Plan   []batch.Op // the batch's ordinary writes
	Final  []batch.Op // the final ones, behind them
	Before []int64    // for each write, the length of what it replaces, −1 for nothing; of a DeleteRange the bytes that it frees
	// The writes [From, To) are those of this engine commit.
	From, To int

	// Publish shows the handle's readers the state with this Change.
	Publish func()

	ranges []int
}

// Ops returns the number of the batch's writes.
func (c *Change) Ops() int { return len(c.Plan) + len(c.Final) }

// Op returns the i-th write of the batch.
func (c *Change) Op(i int) *batch.Op {
	if i < len(c.Plan) {
		return &c.Plan[i]
	}
	return &c.Final[i-len(c.Plan)]
}

// After returns the length of the value that write i leaves under its key, −1 when it
// leaves none.
func (c *Change) After(i int) int64 {
	if o := c.Op(i); o.Kind == batch.Put {
		return int64(len(o.Value))
	}
	return -1
}

// deletes returns which of the writes of the commit delete a range, in order. It is
// valid until the next call.
func (c *Change) deletes() []int {
	c.ranges = c.ranges[:0]
	for i := c.From; i < c.To; i++ {
		if c.Op(i).Kind == batch.DeleteRange {
			c.ranges = append(c.ranges, i)
		}
	}
	return c.ranges
}

// clearedLater says whether one of ranges behind write i, of the same commit, removes what
// write i has stored, with others.
func (c *Change) clearedLater(i int, ranges []int) bool {
	key := c.Op(i).Key
	for n := len(ranges) - 1; n >= 0 && ranges[n] > i; n-- {
		if Covers(c.Op(ranges[n]), key) {
			return true
		}
	}
	return false
}

// touches says whether the commit changes key.
func (c *Change) touches(key []byte) bool {
	if c.Drop {
		return true
	}
	for i := c.From; i < c.To; i++ {
		switch o := c.Op(i); {
		case o.Kind == batch.DeleteRange:
			if c.Before[i] > 0 && Covers(o, key) {
				return true
			}
		case bytes.Equal(o.Key, key):
			return true
		}
	}
	return false
}

// Covers reports whether the DeleteRange r removes key.
func Covers(r *batch.Op, key []byte) bool {
	return bytes.Compare(r.Key, key) <= 0 && Below(key, r.Value)
}

// Below reports whether key < end, where nil means without bound.
func Below(key, end []byte) bool { return end == nil || bytes.Compare(key, end) < 0 }
