package optimistic

import (
	"bytes"
	"math/rand/v2"
)

// A history knows for every key the version of the newest commit that may have
// written it. It is a step function over the keys: a boundary holds for all keys from
// it to the next one. A write of a range replaces the boundaries in it by two, so
// that the history is as large as what was written, not as what was committed.
//
// The boundaries are a treap (a search tree by key, a heap by a random priority) in
// which every node knows the largest version below it: writing a range and asking for
// the newest write in one take time logarithmic in the size, whatever the range
// holds. https://en.wikipedia.org/wiki/Treap
//
// The zero history is empty: nothing was written since version 0.
type history struct {
	root *boundary
	size int
	// pruned is the size after the last pruning.
	pruned int
}

// A boundary is a node. Its key, and the trees below, are never nil-checked away: a
// nil boundary is the empty tree.
type boundary struct {
	key         []byte
	version     uint64 // of the keys in [key, the next boundary)
	newest      uint64 // the largest version in this subtree
	priority    uint64
	left, right *boundary
}

// write notes that the commit of this version, the newest so far, wrote [start, end);
// a nil end means no bound. It keeps the slices.
func (h *history) write(start, end []byte, version uint64) {
	if end != nil && bytes.Compare(start, end) >= 0 {
		return
	}
	left, rest := split(h.root, start)
	inside, right := rest, (*boundary)(nil)
	if end != nil {
		inside, right = split(rest, end)
	}
	if end != nil && (right == nil || !bytes.Equal(first(right).key, end)) {
		// What held at end goes on holding there.
		held := uint64(0)
		if b := last(inside); b != nil {
			held = b.version
		} else if b := last(left); b != nil {
			held = b.version
		}
		right = join(newBoundary(end, held), right)
		h.size++
	}
	h.size += 1 - count(inside)
	h.root = join(join(left, newBoundary(start, version)), right)
}

// writeKey notes that the commit of this version, the newest so far, wrote key.
func (h *history) writeKey(key []byte, version uint64) {
	b := append(make([]byte, 0, len(key)+1), key...)
	h.write(b, append(b, 0), version)
}

// after reports whether a commit newer than version wrote into [start, end); a nil end
// means no bound.
func (h *history) after(start, end []byte, version uint64) bool {
	if end != nil && bytes.Compare(start, end) >= 0 {
		return false
	}
	// What holds at start, which is from the last boundary at or before it.
	held := uint64(0)
	for b := h.root; b != nil; {
		if bytes.Compare(b.key, start) <= 0 {
			held, b = b.version, b.right
		} else {
			b = b.left
		}
	}
	return held > version || within(h.root, start, end, version)
}

// within reports whether a boundary in (start, end) has a newer version.
func within(b *boundary, start, end []byte, version uint64) bool {
	if b == nil || b.newest <= version {
		return false
	}
	if start != nil && bytes.Compare(b.key, start) <= 0 {
		return within(b.right, start, end, version)
	}
	if end != nil && bytes.Compare(b.key, end) >= 0 {
		return within(b.left, start, end, version)
	}
	// Below a node inside, each side has one bound left; with none, newest decides.
	if b.version > version {
		return true
	}
	if start == nil && end == nil {
		return true
	}
	return within(b.left, start, nil, version) || within(b.right, nil, end, version)
}

// minPrune is a size below which pruning isn't worth it.
const minPrune = 256

// prune forgets what no question for a version of at least floor can be about. It
// costs as much as the history is large, so it does nothing until the history has
// doubled since the last time.
func (h *history) prune(floor uint64) {
	if h.size < minPrune || h.size < 2*h.pruned {
		return
	}
	var kept *boundary
	n, held := 0, uint64(0)
	walk(h.root, func(b *boundary) {
		v := b.version
		if v <= floor {
			v = 0
		}
		if v != held {
			kept = join(kept, newBoundary(b.key, v))
			n++
		}
		held = v
	})
	h.root, h.size, h.pruned = kept, n, n
}

func newBoundary(key []byte, version uint64) *boundary {
	return &boundary{key: key, version: version, newest: version, priority: rand.Uint64()}
}

// update computes what b knows of its subtree.
func (b *boundary) update() *boundary {
	b.newest = b.version
	if b.left != nil {
		b.newest = max(b.newest, b.left.newest)
	}
	if b.right != nil {
		b.newest = max(b.newest, b.right.newest)
	}
	return b
}

// split cuts a tree into the boundaries below key and the others.
func split(b *boundary, key []byte) (left, right *boundary) {
	if b == nil {
		return nil, nil
	}
	if bytes.Compare(b.key, key) < 0 {
		b.right, right = split(b.right, key)
		return b.update(), right
	}
	left, b.left = split(b.left, key)
	return left, b.update()
}

// join makes one tree of two, of which the left has the lower keys.
func join(left, right *boundary) *boundary {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.priority > right.priority:
		left.right = join(left.right, right)
		return left.update()
	}
	right.left = join(left, right.left)
	return right.update()
}

func first(b *boundary) *boundary {
	for b != nil && b.left != nil {
		b = b.left
	}
	return b
}

func last(b *boundary) *boundary {
	for b != nil && b.right != nil {
		b = b.right
	}
	return b
}

// walk calls fn with all boundaries in order.
func walk(b *boundary, fn func(*boundary)) {
	if b != nil {
		walk(b.left, fn)
		right := b.right // fn may make b part of another tree
		fn(b)
		walk(right, fn)
	}
}

// count counts the boundaries of a tree that is given up: each was inserted once, so
// the total work is at most that of the insertions.
func count(b *boundary) int {
	if b == nil {
		return 0
	}
	return 1 + count(b.left) + count(b.right)
}
