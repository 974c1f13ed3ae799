// Package quota finds out what each write of a batch replaces, and by how many bytes it changes what its
// actor stores.
package quota

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
)

// Cost returns what the quota counts for a key with a value of n bytes; nothing
// when n < 0: no value.
func Cost(key []byte, n int64) int64 {
	if n < 0 {
		return 0
	}
	return int64(len(key)+batch.WrapperBytes) + n
}

// Delta returns by how many bytes write i of c changes what the actor uses.
func Delta(c *reads.Change, i int) int64 {
	o := c.Op(i)
	if o.Kind == batch.DeleteRange {
		return -c.Before[i]
	}
	return Cost(o.Key, c.After(i)) - Cost(o.Key, c.Before[i])
}

// A Resolver sets Change.Before. It is used again, and by one goroutine at a time.
type Resolver struct{ sim simulation }

// An Actor is what a Resolver asks.
type Actor struct {
	Reads reads.Reads
	Rows  *rows.Space // of the newest state
	Empty bool        // it has no keys
}

// Resolve sets c.Before: for each write what it finds when the writes before it in
// the batch are done. For a Put or Delete that is the length of the value under
// the key, −1 for none, for a DeleteRange the bytes that it frees. What no prior says it
// asks of a.
func (r *Resolver) Resolve(ctx context.Context, c *reads.Change, a Actor) error {
	c.Before = slices.Grow(c.Before[:0], c.Ops())[:c.Ops()]
	if known(c) {
		return nil
	}
	return r.sim.run(ctx, c, a)
}

// known is Resolve for the usual batch, in which every prior is known and no
// key is met twice. It needs no memory because it only believes that a key is new
// when it lies outside of all before it, as with keys in order. It reports
// whether it could tell.
func known(c *reads.Change) bool {
	var lowest, highest []byte
	for i := range c.Ops() {
		o := c.Op(i)
		n, known := o.Prior.Known()
		switch {
		case !known || o.Kind == batch.DeleteRange:
			return false
		case i == 0:
			lowest, highest = o.Key, o.Key
		case bytes.Compare(o.Key, highest) > 0:
			highest = o.Key
		case bytes.Compare(o.Key, lowest) < 0:
			lowest = o.Key
		default:
			return false
		}
		c.Before[i] = n
	}
	return true
}

// A simulation is Resolve for every other batch: it goes through the writes in order
// and knows what each has changed. Its slices are scratch memory.
type simulation struct {
	c      *reads.Change
	a      Actor
	order  []int // the writes of single keys, sorted by key and then by order
	prev   []int // for each such write, the one before it to the same key, or −1
	ranges []int // the DeleteRanges so far, in order
}

func (s *simulation) run(ctx context.Context, c *reads.Change, a Actor) (err error) {
	s.c, s.a = c, a
	defer func() { s.c, s.a = nil, Actor{} }()
	s.link()
	for i := range c.Ops() {
		if c.Op(i).Kind == batch.DeleteRange {
			c.Before[i], err = s.rangeBefore(ctx, i)
			s.ranges = append(s.ranges, i)
		} else {
			c.Before[i], err = s.keyBefore(ctx, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link finds the writes to the same key.
func (s *simulation) link() {
	c := s.c
	s.order, s.ranges = s.order[:0], s.ranges[:0]
	s.prev = slices.Grow(s.prev[:0], c.Ops())[:c.Ops()]
	for i := range c.Ops() {
		s.prev[i] = -1
		if c.Op(i).Kind != batch.DeleteRange {
			s.order = append(s.order, i)
		}
	}
	// Sorting needs no memory, as a map would; batches are small, or sorted already.
	slices.SortFunc(s.order, func(i, j int) int {
		return cmp.Or(bytes.Compare(c.Op(i).Key, c.Op(j).Key), cmp.Compare(i, j))
	})
	for n := 1; n < len(s.order); n++ {
		if i, j := s.order[n-1], s.order[n]; bytes.Equal(c.Op(i).Key, c.Op(j).Key) {
			s.prev[j] = i
		}
	}
}

// keyBefore returns what write i, of one key, finds.
func (s *simulation) keyBefore(ctx context.Context, i int) (int64, error) {
	o, p := s.c.Op(i), s.prev[i]
	if s.cleared(o.Key, p) {
		return -1, nil
	}
	if p >= 0 {
		return s.c.After(p), nil
	}
	if n, known := o.Prior.Known(); known {
		return n, nil
	}
	return s.a.Reads.Size(ctx, o.Key, s.a.Empty)
}

// rangeBefore returns what the DeleteRange i frees: what was in the range before
// the batch and no earlier range freed, and what the writes since have changed of
// it.
func (s *simulation) rangeBefore(ctx context.Context, i int) (n int64, err error) {
	r := s.c.Op(i)
	prior, known := r.Prior.Known()
	switch {
	case known && !s.overlaps(r):
		n = max(prior, 0)
	case !s.a.Empty: // else the key isn't there at all
		if n, err = s.stored(ctx, r); err != nil {
			return 0, err
		}
	}
	// The changes of the writes to one key since it was last cleared add up to what
	// is there now, minus what was there before if nothing cleared it.
	for _, j := range s.order {
		if key := s.c.Op(j).Key; j < i && reads.Covers(r, key) && !s.cleared(key, j) {
			n += Delta(s.c, j)
		}
	}
	return n, nil
}

// stored returns what the range r holds in the store, without what an earlier range
// of the batch has freed.
func (s *simulation) stored(ctx context.Context, r *batch.Op) (n int64, err error) {
	for e, err := range s.a.Rows.List(ctx, rows.Options{Start: r.Key, End: r.Value, KeysOnly: true}, nil) {
		if err != nil {
			return 0, err
		}
		if !s.cleared(e.Key, -1) {
			n += Cost(e.Key, int64(e.Size))
		}
	}
	return n, nil
}

// cleared reports whether a DeleteRange after write i has removed key.
func (s *simulation) cleared(key []byte, i int) bool {
	for n := len(s.ranges) - 1; n >= 0 && s.ranges[n] > i; n-- {
		if reads.Covers(s.c.Op(s.ranges[n]), key) {
			return true
		}
	}
	return false
}

// overlaps reports whether r shares keys with an earlier DeleteRange.
func (s *simulation) overlaps(r *batch.Op) bool {
	return slices.ContainsFunc(s.ranges, func(n int) bool {
		o := s.c.Op(n)
		return reads.Below(r.Key, o.Value) && reads.Below(o.Key, r.Value)
	})
}
