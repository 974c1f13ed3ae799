package batch

import (
	"cmp"
	"slices"
	"sync"
)

// Dirty is the set of things that changed since they were last written, such
// that a change made while a write is under way is not lost, and a failed write
// leaves everything dirty:
//
//	c := d.Capture()
//	for _, k := range c.Keys() { … stage the present value of k … }
//	b.OnCommit(func() { d.Clear(c) })
//
// The order matters: capture first, then read the values. A thing marked in
// between is written with its new value and stays dirty, which costs a write
// too many and never one too few.
//
// The zero value is an empty set. All methods are safe for concurrent use.
type Dirty[K comparable] struct {
	mu sync.Mutex
	// gen numbers the marks. It never goes back, so a Captured from before a
	// Clear can't match a later mark.
	gen   uint64       // +checklocks:mu
	marks map[K]uint64 // +checklocks:mu
}

// Captured is what was dirty at a moment, and since which mark. It doesn't change.
type Captured[K comparable] struct {
	keys []K
	gens []uint64
}

// Mark makes k dirty, or dirty again.
func (d *Dirty[K]) Mark(k K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks == nil {
		d.marks = make(map[K]uint64)
	}
	d.gen++
	d.marks[k] = d.gen
}

// Capture returns what is dirty now, in the order of the latest marks, and
// leaves it dirty.
func (d *Dirty[K]) Capture() Captured[K] {
	type mark struct {
		key K
		gen uint64
	}
	d.mu.Lock()
	marks := make([]mark, 0, len(d.marks))
	for k, g := range d.marks {
		marks = append(marks, mark{k, g})
	}
	d.mu.Unlock()

	// A map has no order; the same history must give the same batch.
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.gen, b.gen) })
	c := Captured[K]{make([]K, len(marks)), make([]uint64, len(marks))}
	for i, m := range marks {
		c.keys[i], c.gens[i] = m.key, m.gen
	}
	return c
}

// Clear makes clean what c holds and was not marked again after it was captured.
// Clearing the same Captured twice is harmless.
func (d *Dirty[K]) Clear(c Captured[K]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range c.keys {
		if d.marks[k] == c.gens[i] {
			delete(d.marks, k)
		}
	}
}

// Dirty reports whether k is dirty.
func (d *Dirty[K]) Dirty(k K) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.marks[k]
	return ok
}

// Len returns how many things are dirty.
func (d *Dirty[K]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.marks)
}

// Keys returns what was dirty, in the order of the latest marks. The slice
// belongs to c: the caller must not modify it.
func (c Captured[K]) Keys() []K { return c.keys }

// Len returns how many things were dirty.
func (c Captured[K]) Len() int { return len(c.keys) }
