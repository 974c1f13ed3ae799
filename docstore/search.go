package docstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// A hit is documents of one segment.
type hit struct {
	segment uint32
	set     text.Set
}

const (
	// fewHits is how many segments are looked up one by one, where a scan would read the rows of all.
	fewHits = 4
	// fewDocs is how many documents are verified where another gram could make them fewer.
	fewDocs = 8
)

// search calls found for each document that matches the pattern, with how often it does if counted is set, until found
// returns false. They come in no order.
func (ix textIndex) search(ctx context.Context, p *text.Pattern, counted bool, found func(doc Path, count int) bool) error {
	more := true
	try := func(doc Path, normalized string) bool {
		if counted {
			if n := p.Count(normalized); n > 0 {
				more = found(doc, n)
			}
		} else if p.Match(normalized) {
			more = found(doc, 1)
		}
		return more
	}
	if err := ix.pending(ctx, ix.r.reader, try); err != nil || !more {
		return err
	}
	q := p.Query()
	hits, err := ix.query(ctx, q, nil)
	if err != nil || len(hits) == 0 {
		return err
	}
	out, err := ix.left(ctx, ix.r.reader)
	if err != nil {
		return err
	}
	for i := range hits {
		h := &hits[i]
		if gone := out[h.segment]; gone != nil {
			h.set.AndNot(gone)
		}
		if q.Exact && !counted {
			names, err := ix.names(ctx, h.segment)
			if err != nil {
				return err
			}
			for n := range h.set.All() {
				if n >= len(names) {
					return fmt.Errorf("%w: segment %d of %s has no document %d", ErrCorrupt, h.segment, clip(ix.base), n)
				}
				if !found(Path(names[n]), 1) {
					return nil
				}
			}
			continue
		}
		for n := range h.set.All() {
			doc, normalized, err := ix.document(ctx, location{h.segment, uint16(n)})
			if err != nil {
				return err
			}
			if !try(doc, string(normalized)) {
				return nil
			}
		}
	}
	return nil
}

// query returns the documents in segments that may match, of those in within, unless that is nil.
func (ix textIndex) query(ctx context.Context, q *text.Query, within []hit) ([]hit, error) {
	switch q.Op {
	case text.All:
		if within != nil {
			return within, nil
		}
		return ix.everything(ctx)
	case text.One:
		if within != nil && len(within) <= fewHits {
			return ix.lookUp(ctx, q.Gram, within)
		}
		hits, err := ix.postings(ctx, ix.gramKey(q.Gram)+"\x00")
		return intersect(hits, within), err
	case text.Begins:
		hits, err := ix.postings(ctx, string(text.AppendKeyPrefix([]byte(ix.base+":tri:"), q.Prefix)))
		return intersect(hits, within), err
	case text.Or:
		var all []hit
		for _, s := range q.Sub {
			hits, err := ix.query(ctx, s, within)
			if err != nil {
				return nil, err
			}
			all = unite(all, hits)
		}
		return all, nil
	case text.And:
		subs, err := ix.rarestFirst(ctx, q.Sub)
		if err != nil {
			return nil, err
		}
		for _, s := range subs {
			if within != nil && count(within) <= fewDocs {
				break
			}
			if within, err = ix.query(ctx, s, within); err != nil {
				return nil, err
			}
		}
		return within, nil
	}
	return nil, nil
}

// rarestFirst returns the parts of an And in an order in which those that probably have the fewest documents come
// first: it looks at the rows of one segment.
func (ix textIndex) rarestFirst(ctx context.Context, subs []*text.Query) ([]*text.Query, error) {
	type part struct {
		q    *text.Query
		size int
	}
	next, err := ix.nextSegment(ctx)
	if err != nil || len(subs) < 3 {
		return subs, err
	}
	parts := make([]part, len(subs))
	for i, s := range subs {
		parts[i] = part{s, text.MaxDocs}
		if s.Op == text.One {
			b, _, err := ix.r.get(ctx, ix.postingKey(s.Gram, next-1))
			if err != nil {
				return nil, err
			}
			parts[i].size = len(b)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return a.size - b.size })
	sorted := make([]*text.Query, len(parts))
	for i, p := range parts {
		sorted[i] = p.q
	}
	return sorted, nil
}

// postings returns what the rows of grams say that begin with prefix.
func (ix textIndex) postings(ctx context.Context, prefix string) ([]hit, error) {
	var hits []hit
	at := map[uint32]int{}
	for e, err := range ix.r.prefixed(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if len(e.Key) < 4 {
			return nil, fmt.Errorf("%w: a row of %s", ErrCorrupt, clip(prefix))
		}
		segment := binary.BigEndian.Uint32(e.Key[len(e.Key)-4:])
		var set text.Set
		if err := set.Decode(e.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", clip(prefix), err)
		}
		if n := len(hits); n == 0 || hits[n-1].segment < segment && len(at) == 0 {
			hits = append(hits, hit{segment, set})
			continue
		}
		if len(at) == 0 { // rows of a second gram
			for i, h := range hits {
				at[h.segment] = i
			}
		}
		if i, ok := at[segment]; ok {
			hits[i].set.Or(&set)
		} else {
			at[segment] = len(hits)
			hits = append(hits, hit{segment, set})
		}
	}
	if len(at) > 0 {
		slices.SortFunc(hits, func(a, b hit) int { return int(a.segment) - int(b.segment) })
	}
	return hits, nil
}

// lookUp returns the documents of within that have a gram.
func (ix textIndex) lookUp(ctx context.Context, g text.Gram, within []hit) ([]hit, error) {
	hits := []hit{}
	for _, h := range within {
		b, ok, err := ix.r.get(ctx, ix.postingKey(g, h.segment))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		var set text.Set
		if err := set.Decode(b); err != nil {
			return nil, err
		}
		if h.set.And(&set); !h.set.Empty() {
			hits = append(hits, h)
		}
	}
	return hits, nil
}

// everything returns all documents in segments.
func (ix textIndex) everything(ctx context.Context) ([]hit, error) {
	var hits []hit
	for e, err := range ix.r.prefixed(ctx, ix.base+":seg\x00", "") {
		if err != nil {
			return nil, err
		}
		if len(e.Key) < 4 {
			return nil, fmt.Errorf("%w: a segment of %s", ErrCorrupt, clip(ix.base))
		}
		segment := binary.BigEndian.Uint32(e.Key)
		if n := len(hits); n > 0 && hits[n-1].segment == segment { // another piece of it
			continue
		}
		names, err := ix.names(ctx, segment)
		if err != nil {
			return nil, err
		}
		hits = append(hits, hit{segment, text.First(len(names))})
	}
	return hits, nil
}

// intersect returns the documents of hits that are in within, unless that is nil. Both are by segment, and so is what it
// returns, which is not nil.
func intersect(hits, within []hit) []hit {
	if within == nil {
		return append([]hit{}, hits...)
	}
	both := []hit{}
	for i, j := 0, 0; i < len(hits) && j < len(within); {
		switch a, b := &hits[i], &within[j]; {
		case a.segment < b.segment:
			i++
		case a.segment > b.segment:
			j++
		default:
			h := *a
			if h.set.And(&b.set); !h.set.Empty() {
				both = append(both, h)
			}
			i, j = i+1, j+1
		}
	}
	return both
}

// unite returns the documents of both, by segment.
func unite(a, b []hit) []hit {
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(a, b hit) int { return int(a.segment) - int(b.segment) })
	n := 0
	for i := range all {
		if n > 0 && all[n-1].segment == all[i].segment {
			all[n-1].set.Or(&all[i].set)
		} else {
			all[n] = all[i]
			n++
		}
	}
	return all[:n]
}

// count returns how many documents hits are.
func count(hits []hit) (n int) {
	for i := range hits {
		n += hits[i].set.Len()
	}
	return n
}
