package batch

import "bytes"

// A Group is writes in order. The zero value is empty and ready for use.
//
// Keys and range ends are copied, so the caller may reuse the slices at once.
// Values are not copied: they are the large part, and must not change until the
// batch is settled. A Group is not safe for concurrent use.
type Group struct {
	ops   []Op
	arena []byte
}

// Put stores value under key; a nil value is the empty value.
func (g *Group) Put(key, value []byte) { g.PutPrior(key, value, PriorUnknown) }

// PutPrior is Put by a writer that knows what is stored under key.
func (g *Group) PutPrior(key, value []byte, prior Prior) {
	g.ops = append(g.ops, Op{Put, g.copyKey(key), value, prior})
}

// Delete removes key.
func (g *Group) Delete(key []byte) { g.DeletePrior(key, PriorUnknown) }

// DeletePrior is Delete by a writer that knows what is stored under key.
func (g *Group) DeletePrior(key []byte, prior Prior) {
	g.ops = append(g.ops, Op{Delete, g.copyKey(key), nil, prior})
}

// DeleteRange removes every key in [start, end); a nil end means no upper bound.
// A range with end ≤ start holds no key and is not recorded, so that a store
// never sees one.
func (g *Group) DeleteRange(start, end []byte) { g.DeleteRangePrior(start, end, PriorUnknown) }

// DeleteRangePrior is DeleteRange by a writer that knows what the range holds:
// prior is made by Freed.
func (g *Group) DeleteRangePrior(start, end []byte, prior Prior) {
	if end != nil && bytes.Compare(end, start) <= 0 {
		return
	}
	if prior == Absent {
		prior = Freed(0)
	}
	op := Op{DeleteRange, g.copyKey(start), nil, prior}
	if end != nil {
		op.Value = g.copyKey(end)
	}
	g.ops = append(g.ops, op)
}

// Len returns the number of writes.
func (g *Group) Len() int { return len(g.ops) }

// Ops returns the writes in order. The slice and the keys belong to g and are
// valid until it is changed or the batch is Reset; the caller must not modify them.
func (g *Group) Ops() []Op { return g.ops }

// copyKey copies key into the arena. A full arena is left to the keys that point
// into it, and a larger one begun: growing it in place would copy every key
// again.
func (g *Group) copyKey(key []byte) []byte {
	if cap(g.arena)-len(g.arena) < len(key) {
		g.arena = make([]byte, 0, max(2*cap(g.arena), len(key), minArena))
	}
	n := len(g.arena)
	g.arena = append(g.arena, key...)
	// The full slice expression keeps an append to a key off its neighbour.
	return g.arena[n:len(g.arena):len(g.arena)]
}

const minArena = 256

// reset empties g and keeps its memory. extra is the number of Ops beyond the
// length of g.ops that the array may hold.
func (g *Group) reset(extra int) {
	n := min(len(g.ops)+extra, cap(g.ops))
	clear(g.ops[:n])
	g.ops, g.arena = g.ops[:0], g.arena[:0]
}
