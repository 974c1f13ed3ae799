package traces

import (
	"bytes"
	"context"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A covered is a chunk that the index knows all about.
type covered struct {
	key      chunkKey
	min, max uint64 // Unix ns: a record is at min at the earliest, and before max
	parts    []entry
}

// has reports whether the chunk seems to have records of the trace with the hash.
func (c *covered) has(hash uint64) bool {
	for i := range c.parts {
		if c.parts[i].has(hash) {
			return true
		}
	}
	return false
}

// A catalog is what the notes say: the chunks that are covered, in the order of their
// keys, and the ledgers.
type catalog struct {
	layout  actorstore.Layout // of the keys of chunks
	chunks  []covered
	ledgers map[int64]ledger
	notes   int     // of the index
	bad     []error // notes that can't be read; what they covered isn't
}

// loadCatalog reads the notes of an actor.
func loadCatalog(ctx context.Context, s *actorstore.Snapshot) (*catalog, error) {
	c := &catalog{layout: s.Layout(), ledgers: map[int64]ledger{}}
	for n, err := range s.Notes(ctx, notePrefix()) {
		if err != nil {
			return nil, err
		}
		if err := c.add(n); err != nil {
			c.bad = append(c.bad, err)
		}
	}
	// Several entries are of one chunk; and notes may overlap, since late chunks have
	// notes of their own.
	slices.SortStableFunc(c.chunks, func(a, b covered) int { return a.key.compare(b.key) })
	c.merge()
	return c, nil
}

func (c *catalog) add(n actorstore.Note) error {
	k, kind, ok := parseNoteKey(n.Key)
	switch {
	case !ok:
		return nil // of a later version of this package
	case kind == noteLedger:
		l, err := parseLedger(n.Value)
		if err == nil {
			c.ledgers[k.bucket] = l
		}
		return err
	}
	c.notes++
	entries, err := parseEntries(bytes.Clone(n.Value), k)
	for _, e := range entries {
		c.chunks = append(c.chunks, covered{
			chunkKey{k.bucket, e.id}, uint64(e.min) * 1e6, uint64(e.max+1) * 1e6, []entry{e},
		})
	}
	return err
}

// merge puts the entries of each chunk together, and leaves out those of which some are
// missing.
func (c *catalog) merge() {
	all := c.chunks
	c.chunks = c.chunks[:0]
	for len(all) > 0 {
		first, n, traces := all[0], 1, all[0].parts[0].n
		for ; n < len(all) && all[n].key == first.key; n++ {
			first.parts = append(first.parts, all[n].parts...)
			traces += all[n].parts[0].n
		}
		if all = all[n:]; traces >= first.parts[0].all {
			c.chunks = append(c.chunks, first)
		}
	}
}

// find returns what the index says of a chunk, if it knows all about it.
func (c *catalog) find(k chunkKey) (*covered, bool) {
	i, ok := slices.BinarySearchFunc(c.chunks, k, func(c covered, k chunkKey) int { return c.key.compare(k) })
	if !ok {
		return nil, false
	}
	return &c.chunks[i], true
}

// since returns where the chunks are that were cut when m was, or later: behind it, and in
// earlier buckets into which something was dated back since.
func (c *catalog) since(m numbered) (ranges []keyRange) {
	var back []int64
	for start, l := range c.ledgers {
		if start < m.key.bucket && l.seq > m.seq {
			back = append(back, start)
		}
	}
	slices.Sort(back)
	for _, start := range back {
		ranges = append(ranges, keyRange{bucketStart(c.layout, start), bucketStart(c.layout, start+1)})
	}
	_, end := chunksRange(c.layout)
	return append(ranges, keyRange{appendChunkKey(c.layout, nil, m.key), end})
}

// A keyRange is [start, end).
type keyRange struct{ start, end []byte }

// ranges returns the ranges in which there may be chunks that the caller wants: those that
// are covered if keep says so, and whatever isn't covered in gaps. Neighbours are one
// range.
func (c *catalog) ranges(gaps keyRange, keep func(*covered) bool) (out []keyRange) {
	add := func(start, end []byte) {
		if bytes.Compare(start, end) >= 0 {
			return
		}
		if n := len(out); n > 0 && bytes.Equal(out[n-1].end, start) {
			out[n-1].end = end
			return
		}
		out = append(out, keyRange{start, end})
	}
	// The index says of chunks that they are there, never that there are no others: what
	// lies between those that are covered must be looked at, too.
	at := gaps.start
	gap := func(end []byte) {
		if bytes.Compare(end, gaps.end) > 0 {
			end = gaps.end
		}
		add(at, end)
	}
	var next []byte // the key right behind the chunk before
	for i := range c.chunks {
		k := &c.chunks[i]
		key := appendChunkKey(c.layout, nil, k.key)
		if !bytes.Equal(key, next) { // ids that follow each other leave no gap
			gap(key)
		}
		next = appendChunkKey(c.layout, nil, chunkKey{k.key.bucket, k.key.id + 1})
		if keep(k) {
			add(key, next)
		}
		if bytes.Compare(next, at) > 0 {
			at = next
		}
	}
	gap(gaps.end)
	return out
}
