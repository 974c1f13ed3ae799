package docstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/kv"
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
	// denseHits: of documents of which every so many-th is asked for, all are read in one scan.
	denseHits = 6
)

// search calls found for each document that matches the pattern, with how often it does if counted is set, until found
// returns false. They come in no order.
func (ix textIndex) search(ctx context.Context, p *text.Pattern, counted bool, found func(doc Path, count int) bool) {
	more := true
	try := func(doc, normalized []byte) bool {
		count := 0
		switch {
		case counted:
			count = p.Count(normalized)
		case p.Match(normalized):
			count = 1
		}
		if count > 0 {
			more = found(Path(doc), count)
		}
		return more
	}
	ix.waitingDocs(ctx, func(_ uint32, doc, normalized []byte) bool { return try(doc, normalized) })
	if !more {
		return
	}
	q := p.Query()
	hits := ix.query(ctx, q, nil)
	if len(hits) == 0 {
		return
	}
	out := ix.left(ctx)
	for i := range hits {
		h := &hits[i]
		if gone := out[h.segment]; gone != nil {
			h.set.AndNot(gone)
		}
		switch {
		case h.set.Empty():
		case q.Exact && !counted:
			more = ix.named(ctx, h, found)
		default:
			ix.texts(ctx, h, try)
		}
		if !more {
			return
		}
	}
}

// named calls found for each document of a hit, until found returns false, which it reports.
func (ix textIndex) named(ctx context.Context, h *hit, found func(doc Path, count int) bool) (more bool) {
	names := ix.names(ctx, h.segment)
	for n := range h.set.All() {
		if n >= len(names) {
			ix.corrupt(segmentKey(ix.base, ":seg", h.segment), "it lacks document %d", n)
			return false
		}
		if !found(Path(names[n]), 1) {
			return false
		}
	}
	return true
}

// texts calls fn for each document of a hit with its normalised text, until fn returns false. Both are fn's until it
// returns.
func (ix textIndex) texts(ctx context.Context, h *hit, fn func(doc, normalized []byte) bool) {
	first, end := h.set.Bounds()
	if h.set.Len()*denseHits < end-first {
		for n := range h.set.All() {
			if doc, normalized := ix.document(ctx, location{h.segment, uint16(n)}); ix.err != nil || !fn(doc, normalized) {
				return
			}
		}
		return
	}
	r := kv.Range{
		Start: []byte(documentKey(ix.base, ":txt", location{h.segment, uint16(first)})),
		End:   []byte(documentKey(ix.base, ":txt", location{h.segment, uint16(end)})),
	}
	left := h.set
	for k, row := range ix.scan(ctx, r) {
		n := int(k[len(r.Start)-2])<<8 | int(k[len(r.Start)-1])
		if n >= text.MaxDocs || !left.Has(n) {
			continue
		}
		left.Remove(n)
		at := location{h.segment, uint16(n)}
		if len(k) > len(r.Start) { // the first piece
			row, _ = ix.find(ctx, documentKey(ix.base, ":txt", at))
		}
		if doc, normalized := ix.split(row, at); ix.err != nil || !fn(doc, normalized) {
			return
		}
	}
	if !left.Empty() {
		ix.corrupt(segmentKey(ix.base, ":txt", h.segment), "documents are missing")
	}
}

// query returns the documents in segments that may match, of those in within, unless that is nil.
func (ix textIndex) query(ctx context.Context, q *text.Query, within []hit) []hit {
	switch q.Op {
	case text.All:
		if within == nil {
			within = ix.everything(ctx)
		}
		return within
	case text.One:
		if within != nil && len(within) <= fewHits {
			return ix.lookUp(ctx, q.Gram, within)
		}
		return intersect(ix.postings(ctx, ix.gramKey(q.Gram.Pair())+"\x00", q.Gram.Third()), within)
	case text.Begins:
		return intersect(ix.postings(ctx, ix.gramKey(q.Prefix), -1), within)
	case text.Or:
		var all []hit
		for _, s := range q.Sub {
			all = unite(all, ix.query(ctx, s, within))
		}
		return all
	case text.And:
		for _, s := range ix.rarestFirst(ctx, q.Sub) {
			// The rows of another gram take as long to read as the texts of as many documents as there are segments.
			if within != nil && count(within) <= max(fewDocs, len(within)) {
				break
			}
			within = ix.query(ctx, s, within)
		}
		return within
	}
	return nil
}

// rarestFirst returns the parts of an And in an order in which those that probably have the fewest documents come
// first: it looks at the rows of one segment.
func (ix textIndex) rarestFirst(ctx context.Context, subs []*text.Query) []*text.Query {
	if len(subs) < 3 {
		return subs
	}
	last := []hit{{ix.nextSegment(ctx) - 1, text.First(text.MaxDocs)}}
	size := map[*text.Query]int{}
	for _, s := range subs {
		if size[s] = text.MaxDocs; s.Op == text.One {
			size[s] = count(ix.lookUp(ctx, s.Gram, last))
		}
	}
	return slices.SortedStableFunc(slices.Values(subs), func(a, b *text.Query) int { return size[a] - size[b] })
}

// addRow adds to set what a row says; see text.Set.AddRow.
func (ix textIndex) addRow(set *text.Set, key string, row []byte, third rune) {
	if err := set.AddRow(row, third); err != nil {
		ix.corrupt(key, "%w", err)
	}
}

// postings returns what the rows say whose keys begin with prefix: of any gram, or if third isn't negative of those with
// that third character.
func (ix textIndex) postings(ctx context.Context, prefix string, third rune) []hit {
	hits, at := []hit{}, map[uint32]int{}
	for k, row := range ix.prefixed(ctx, prefix, "") {
		start := 0
		if third < 0 { // the rest of the two characters stands before
			if start = strings.IndexByte(k, 0) + 1; start == 0 {
				start = -1
			}
		}
		segment := ix.segmentAt(k, start)
		i, ok := len(hits), false
		if third < 0 { // there may be rows of several pairs
			i, ok = at[segment]
		}
		if !ok {
			i = len(hits)
			if hits = append(hits, hit{segment: segment}); third < 0 {
				at[segment] = i
			}
		}
		if ix.addRow(&hits[i].set, prefix, row, third); hits[i].set.Empty() {
			hits = hits[:i]
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.segment, b.segment) })
	return hits
}

// lookUp returns the documents of within that have a gram.
func (ix textIndex) lookUp(ctx context.Context, g text.Gram, within []hit) []hit {
	hits := []hit{}
	for _, h := range within {
		key := ix.postingKey(g.Pair(), h.segment)
		row, _ := ix.get(ctx, key)
		var set text.Set
		if ix.addRow(&set, key, row, g.Third()); set.Empty() && len(row) > text.RowSize {
			for _, row := range ix.prefixed(ctx, key+"\x00", "") {
				ix.addRow(&set, key, row, g.Third())
			}
		}
		if h.set.And(&set); !h.set.Empty() {
			hits = append(hits, h)
		}
	}
	return hits
}

// everything returns all documents in segments.
func (ix textIndex) everything(ctx context.Context) []hit {
	var hits []hit
	prefix := ix.base + ":seg\x00"
	for k := range ix.scan(ctx, kv.Range{Start: []byte(prefix), End: above(prefix)}) {
		segment := ix.segmentAt(k, len(prefix))
		if n := len(hits); n == 0 || hits[n-1].segment != segment { // not another piece of it
			hits = append(hits, hit{segment, text.First(len(ix.names(ctx, segment)))})
		}
	}
	return hits
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

// unite returns the documents of both, by segment, and never nil.
func unite(a, b []hit) []hit {
	all := append(append([]hit{}, a...), b...)
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
