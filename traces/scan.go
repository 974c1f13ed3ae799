package traces

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
)

// pageChunks is how many chunks are read at once.
const pageChunks = 10

// A keyed is a chunk with its key.
type keyed struct {
	key chunkKey
	*chunk
}

// A scanner reads chunks: of the store, and those that are not there yet.
type scanner struct {
	snap    *actorstore.Snapshot
	cat     *catalog
	memory  []keyed // by key
	read    int     // chunks read from the store
	damaged []Damage
	seen    map[string]bool // keys that are damaged
}

func newScanner(ctx context.Context, snap *actorstore.Snapshot, memory []keyed) (*scanner, error) {
	cat, err := loadCatalog(ctx, snap)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(memory, func(a, b keyed) int { return a.key.compare(b.key) })
	return &scanner{snap: snap, cat: cat, memory: memory, seen: map[string]bool{}}, nil
}

// scan yields the chunks in the ranges, which are in order, and those of the memory, in
// the order of their keys. What is in both is yielded once.
func (s *scanner) scan(ctx context.Context, ranges []keyRange, yield func(keyed) error) error {
	memory := s.memory
	// upTo yields what the memory has up to a key, and says whether it has that one.
	upTo := func(k chunkKey) (same bool, err error) {
		for len(memory) > 0 && memory[0].key.compare(k) <= 0 {
			same = memory[0].key == k
			if err = yield(memory[0]); err != nil {
				return same, err
			}
			memory = memory[1:]
		}
		return same, nil
	}
	err := s.stored(ctx, ranges, func(c keyed) error {
		same, err := upTo(c.key)
		if err != nil || same {
			return err
		}
		return yield(c)
	})
	for _, c := range memory {
		if err == nil {
			err = yield(c)
		}
	}
	return err
}

// stored yields the chunks in the ranges that are in the store.
func (s *scanner) stored(ctx context.Context, ranges []keyRange, yield func(keyed) error) error {
	for _, r := range ranges {
		for next := r.start; next != nil; {
			var err error
			if next, err = s.page(ctx, keyRange{next, r.end}, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// page reads some chunks, and returns where to go on, nil at the end. A chunk is yielded
// when the page is read: the consumer may take its time.
func (s *scanner) page(ctx context.Context, r keyRange, yield func(keyed) error) (next []byte, err error) {
	type raw struct{ key, value []byte }
	var page []raw
	for e, err := range s.snap.List(ctx, actorstore.ListOptions{Start: r.start, End: r.end, Limit: pageChunks}) {
		if errors.Is(err, actorstore.ErrCorrupt) {
			// List says nothing about which keys are sound: look at each.
			return nil, s.carefully(ctx, r, yield)
		}
		if err != nil {
			return nil, err
		}
		page = append(page, raw{bytes.Clone(e.Key), bytes.Clone(e.Value)})
	}
	for _, e := range page {
		if err := s.found(e.key, e.value, yield); err != nil {
			return nil, err
		}
	}
	if len(page) < pageChunks {
		return nil, nil
	}
	return append(page[len(page)-1].key, 0), nil
}

// carefully yields the chunks of a range in which the rows of some are damaged.
func (s *scanner) carefully(ctx context.Context, r keyRange, yield func(keyed) error) error {
	for e, err := range s.snap.Survey(ctx, r.start, r.end) {
		key := bytes.Clone(e.Key)
		var value []byte
		if err == nil {
			value, err = s.snap.Get(ctx, key, nil)
		}
		switch {
		case err == nil:
			err = s.found(key, value, yield)
		case key != nil && errors.Is(err, actorstore.ErrCorrupt):
			s.damage(key, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found decodes a chunk and yields it.
func (s *scanner) found(key, value []byte, yield func(keyed) error) error {
	s.read++
	k, ok := parseChunkKey(s.snap.Layout(), key)
	if !ok {
		s.damage(key, errKey)
		return nil
	}
	c, err := parseChunk(value)
	if err != nil {
		s.damage(key, err)
		return nil
	}
	return yield(keyed{k, c})
}

func (s *scanner) damage(key []byte, err error) {
	if !s.seen[string(key)] {
		s.seen[string(key)] = true
		s.damaged = append(s.damaged, Damage{key, actorstore.Describe(key), err})
	}
}

// chunk returns one chunk, nil if it isn't there or can't be read.
func (s *scanner) chunk(ctx context.Context, k chunkKey) (c *chunk, err error) {
	if i, ok := s.find(k); ok {
		return s.memory[i].chunk, nil
	}
	r := keyRange{appendChunkKey(s.snap.Layout(), nil, k), afterChunk(s.snap.Layout(), k)}
	err = s.stored(ctx, []keyRange{r}, func(found keyed) error {
		c = found.chunk
		return nil
	})
	return c, err
}

// find returns where a chunk stands in the memory, or would stand.
func (s *scanner) find(k chunkKey) (i int, ok bool) {
	return slices.BinarySearchFunc(s.memory, k, func(c keyed, k chunkKey) int { return c.key.compare(k) })
}

// inMemory reports whether a chunk is one of the memory.
func (s *scanner) inMemory(k chunkKey) bool {
	_, ok := s.find(k)
	return ok
}

// keyBefore returns the key of the last chunk before another.
func (s *scanner) keyBefore(ctx context.Context, k chunkKey) (before optional[chunkKey], err error) {
	start, _ := chunksRange(s.snap.Layout())
	if before, err = lastKey(ctx, s.snap, start, appendChunkKey(s.snap.Layout(), nil, k)); err != nil {
		return before, err
	}
	i, _ := s.find(k)
	if i > 0 && (!before.set || s.memory[i-1].key.compare(before.value) > 0) {
		before = some(s.memory[i-1].key)
	}
	return before, nil
}

// A timed is a record of a chunk with what the chunk says about it.
type timed struct {
	*record
	at       uint64 // Unix ns
	strings  []string
	resource *Resource
	place    place
	chunk    *chunk
}

// timed returns the records of a chunk by time, those of one time as they came. resource is
// asked for the resource that a record states.
func (c keyed) timed(resource func(*record, []string) *Resource) []timed {
	out := make([]timed, 0, len(c.records))
	var now *Resource
	for i := range c.records {
		r := &c.records[i]
		if r.kind == kindUpdate && r.span.IsZero() {
			now = resource(r, c.strings)
			continue
		}
		out = append(out, timed{r, c.base + r.offset, c.strings, now, place{c.key, uint32(i)}, c.chunk})
	}
	slices.SortStableFunc(out, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	return out
}

// newest returns the chunk that was cut last, which says what spans ran; nil without one,
// and if it is damaged.
func (s *scanner) newest(ctx context.Context) (k keyed, err error) {
	var tip optional[chunkKey]
	seq := uint64(0)
	for start, l := range s.cat.ledgers {
		if l.chunks > 0 && l.seq >= seq {
			tip, seq = some(chunkKey{start, l.last}), l.seq
		}
	}
	start, end := chunksRange(s.cat.layout)
	last, err := lastKey(ctx, s.snap, start, end)
	if err != nil || !last.set {
		return keyed{}, err
	}
	// The last key isn't always of the chunk that was cut last: what is dated back is in
	// an earlier bucket. But what other programs wrote, the ledgers don't know.
	if l, ok := s.cat.ledgers[last.value.bucket]; !tip.set || !ok || last.value.id >= l.next {
		tip = last
	}
	c, err := s.chunk(ctx, tip.value)
	return keyed{tip.value, c}, err
}

// lastKey returns the last key of a chunk in [start, end). One that is damaged counts: its
// place is taken.
func lastKey(ctx context.Context, r actorstore.Reader, start, end []byte) (k optional[chunkKey], err error) {
	for e, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, Reverse: true, KeysOnly: true}) {
		if errors.Is(err, actorstore.ErrCorrupt) {
			return lastSurveyed(ctx, r, start, end)
		}
		if err != nil {
			return k, err
		}
		if key, ok := parseChunkKey(r.Layout(), e.Key); ok {
			return some(key), nil
		}
		return lastSurveyed(ctx, r, start, end) // some other key
	}
	return k, nil
}

// lastSurveyed is lastKey where not all is as it should be.
func lastSurveyed(ctx context.Context, r actorstore.Reader, start, end []byte) (k optional[chunkKey], err error) {
	s, ok := r.(*actorstore.Snapshot)
	if !ok {
		if s, err = r.(*actorstore.Actor).Snapshot(ctx); err != nil {
			return k, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	for key, err := range surveyed(ctx, s, start, end) {
		if err != nil {
			return k, err
		}
		k = some(key)
	}
	return k, nil
}

// surveyed yields the keys of the chunks in [start, end), those of damaged ones too. An error is the last
// that it yields.
func surveyed(ctx context.Context, s *actorstore.Snapshot, start, end []byte) iter.Seq2[chunkKey, error] {
	return func(yield func(chunkKey, error) bool) {
		for e, err := range s.Survey(ctx, start, end) {
			if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
				yield(chunkKey{}, err)
				return
			}
			if k, ok := parseChunkKey(s.Layout(), e.Key); ok && !yield(k, nil) {
				return
			}
		}
	}
}
