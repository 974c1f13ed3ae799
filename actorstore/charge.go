package actorstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
)

// cost returns what the quota counts for a key with a value of n bytes; nothing
// when n < 0: no value.
func cost(key []byte, n int64) int64 {
	if n < 0 {
		return 0
	}
	return int64(len(key)+batch.WrapperBytes) + n
}

// delta returns by how many bytes write i changes what the actor uses.
func (f *flight) delta(i int) int64 {
	o := f.Op(i)
	if o.Kind == batch.DeleteRange {
		return -f.Before[i]
	}
	return cost(o.Key, f.After(i)) - cost(o.Key, f.Before[i])
}

// charge refuses a batch that makes the actor grow beyond its quota. One that
// doesn't make it grow lands also when the quota is exceeded already: it may be how
// its user makes room. So does one that is marked OverQuota.
func (f *flight) charge() error {
	was := f.a.head.Used
	used := was
	for i := range f.Ops() {
		if used += f.delta(i); used < 0 {
			return fmt.Errorf("actorstore: %s %s frees more than the actor stores, by a wrong prior or a wrong head: %w",
				f.Op(i).Kind, Describe(f.Op(i).Key), ErrCorrupt)
		}
	}
	if limit := f.a.store.limits.Storage; used > was && used > limit && !f.b.OverQuota {
		return &QuotaError{Used: was, Wanted: used, Limit: limit}
	}
	return nil
}

// resolve sets before: for each write what it finds when the writes before it in
// the batch are done. For a Put or Delete that is the length of the value under
// the key, −1 for none, for a DeleteRange the bytes that it frees.
func (f *flight) resolve(ctx context.Context) error {
	if f.resolveKnown() {
		return nil
	}
	return f.sim.run(ctx, f)
}

// resolveKnown is resolve for the usual batch, in which every prior is known and no
// key is met twice. It needs no memory because it only believes that a key is new
// when it lies outside of all before it, as with keys in order. It reports
// whether it could tell.
func (f *flight) resolveKnown() bool {
	var lowest, highest []byte
	for i := range f.Ops() {
		o := f.Op(i)
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
		f.Before[i] = n
	}
	return true
}

// A simulation is resolve for every other batch: it goes through the writes in order
// and knows what each has changed. Its slices are scratch memory.
type simulation struct {
	f      *flight
	order  []int // the writes of single keys, sorted by key and then by order
	prev   []int // for each such write, the one before it to the same key, or −1
	ranges []int // the DeleteRanges so far, in order
}

func (s *simulation) run(ctx context.Context, f *flight) (err error) {
	s.f = f
	defer func() { s.f = nil }()
	s.link()
	for i := range f.Ops() {
		if f.Op(i).Kind == batch.DeleteRange {
			f.Before[i], err = s.rangeBefore(ctx, i)
			s.ranges = append(s.ranges, i)
		} else {
			f.Before[i], err = s.keyBefore(ctx, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link finds the writes to the same key.
func (s *simulation) link() {
	f := s.f
	s.order, s.ranges = s.order[:0], s.ranges[:0]
	s.prev = slices.Grow(s.prev[:0], f.Ops())[:f.Ops()]
	for i := range f.Ops() {
		s.prev[i] = -1
		if f.Op(i).Kind != batch.DeleteRange {
			s.order = append(s.order, i)
		}
	}
	// Sorting needs no memory, as a map would; batches are small, or sorted already.
	slices.SortFunc(s.order, func(i, j int) int {
		return cmp.Or(bytes.Compare(f.Op(i).Key, f.Op(j).Key), cmp.Compare(i, j))
	})
	for n := 1; n < len(s.order); n++ {
		if i, j := s.order[n-1], s.order[n]; bytes.Equal(f.Op(i).Key, f.Op(j).Key) {
			s.prev[j] = i
		}
	}
}

// keyBefore returns what write i, of one key, finds.
func (s *simulation) keyBefore(ctx context.Context, i int) (int64, error) {
	o, p := s.f.Op(i), s.prev[i]
	if s.cleared(o.Key, p) {
		return -1, nil
	}
	if p >= 0 {
		return s.f.After(p), nil
	}
	if n, known := o.Prior.Known(); known {
		return n, nil
	}
	return s.f.a.reads.Size(ctx, o.Key, s.f.a.head.Used == 0)
}

// rangeBefore returns what the DeleteRange i frees: what was in the range before
// the batch and no earlier range freed, and what the writes since have changed of
// it.
func (s *simulation) rangeBefore(ctx context.Context, i int) (n int64, err error) {
	f, r := s.f, s.f.Op(i)
	prior, known := r.Prior.Known()
	switch {
	case known && !s.overlaps(r):
		n = max(prior, 0)
	case f.a.head.Used > 0: // else the key isn't there at all
		if n, err = s.stored(ctx, r); err != nil {
			return 0, err
		}
	}
	// The changes of the writes to one key since it was last cleared add up to what
	// is there now, minus what was there before if nothing cleared it.
	for _, j := range s.order {
		if key := f.Op(j).Key; j < i && reads.Covers(r, key) && !s.cleared(key, j) {
			n += f.delta(j)
		}
	}
	return n, nil
}

// stored returns what the range r holds in the store, without what an earlier range
// of the batch has freed.
func (s *simulation) stored(ctx context.Context, r *batch.Op) (n int64, err error) {
	for e, err := range s.f.a.space.List(ctx, rows.Options{Start: r.Key, End: r.Value, KeysOnly: true}, nil) {
		if err != nil {
			return 0, err
		}
		if !s.cleared(e.Key, -1) {
			n += cost(e.Key, int64(e.Size))
		}
	}
	return n, nil
}

// cleared reports whether a DeleteRange after write i has removed key.
func (s *simulation) cleared(key []byte, i int) bool {
	for n := len(s.ranges) - 1; n >= 0 && s.ranges[n] > i; n-- {
		if reads.Covers(s.f.Op(s.ranges[n]), key) {
			return true
		}
	}
	return false
}

// overlaps reports whether r shares keys with an earlier DeleteRange.
func (s *simulation) overlaps(r *batch.Op) bool {
	return slices.ContainsFunc(s.ranges, func(n int) bool {
		o := s.f.Op(n)
		return reads.Below(r.Key, o.Value) && reads.Below(o.Key, r.Value)
	})
}
