package traces

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// widest is how long a bucket is at most.
const widest = 24 * time.Hour

// A gatherer gathers the records of the spans that a query selects.
type gatherer struct {
	*scanner
	q         Query
	from, to  uint64 // Unix ns, half-open
	limit     int
	spans     map[SpanID]*gathered
	inRange   int // spans with a record in the range
	matched   int // of these, those that have ended and match
	order     int
	clamped   bool
	resources resources
	first     *chunkKey         // of the chunks read for the range
	actives   map[SpanID]active // spans that ran when one of those was cut

	foreign map[SpanID]timed // what spans of other traces than the query's begin with

	// Of queries with filters. What says how a span ended may stand behind its end, most
	// often in the same chunk or the next: fresh are spans that ended in this chunk, ripe
	// those that ended in the one before.
	fresh, ripe []*gathered
	refused     map[SpanID]int // forgotten, with their order
	again       map[SpanID]int // of these, those of which there was more
	only        map[SpanID]int // unless it is nil, nothing else is gathered
}

// gather reads everything.
func (g *gatherer) gather(ctx context.Context) error {
	g.actives = map[SpanID]active{}
	g.foreign = map[SpanID]timed{}
	g.refused, g.again = map[SpanID]int{}, map[SpanID]int{}
	if err := g.scan(ctx, g.candidates(), g.add); err != nil {
		return err
	}
	if len(g.again) > 0 { // they were forgotten too soon
		g.only = g.again
		if err := g.scan(ctx, g.candidates(), g.add); err != nil {
			return err
		}
	}
	if !g.q.TraceID.IsZero() || g.first == nil || g.from == 0 {
		return nil // all there is of them has been read
	}
	return g.complete(ctx)
}

// candidates returns where the chunks are that may have records of the range, or of the
// trace.
func (g *gatherer) candidates() []keyRange {
	start, end := chunksRange()
	gaps := keyRange{start, end}
	if g.to < math.MaxInt64 {
		gaps.end = bucketStart(int64(g.to/1e9) + 1)
	}
	if !g.q.TraceID.IsZero() {
		hash := hashTrace(g.q.TraceID)
		return g.cat.ranges(gaps, func(c *covered) bool { return c.min < g.to && c.has(hash) })
	}
	if back := uint64(widest / time.Second); g.from/1e9 > back {
		gaps.start = bucketStart(int64(g.from/1e9 - back))
	}
	return g.cat.ranges(gaps, func(c *covered) bool { return c.min < g.to && c.max > g.from })
}

// add takes the records of a chunk.
func (g *gatherer) add(c keyed) error {
	if !g.touches(c) {
		return nil
	}
	if g.first == nil {
		first := c.key
		g.first = &first
	}
	for _, a := range c.active {
		if _, ok := g.actives[a.span]; !ok {
			g.actives[a.span] = a
		}
	}
	for _, r := range c.timed(g.resources.of) {
		if r.at < g.to {
			g.take(r)
		}
	}
	ripe := g.ripe
	g.ripe, g.fresh = g.fresh, nil
	for _, s := range ripe {
		g.judge(s)
	}
	return nil
}

// touches reports whether a chunk has records of the range; one of the memory, or that
// the index doesn't cover, may not.
func (g *gatherer) touches(c keyed) bool {
	if !g.q.TraceID.IsZero() {
		return true
	}
	for i := range c.records {
		if at := c.base + c.records[i].offset; at >= g.from && at < g.to {
			return true
		}
	}
	return false
}

// take takes a record that is before the end of the range.
func (g *gatherer) take(r timed) {
	if g.passedOver(r.span) {
		return
	}
	s := g.spans[r.span]
	in := r.at >= g.from
	if s == nil {
		if g.elsewhere(r) {
			return
		}
		// One more than is wanted: that there is one is all there is to say. A record from
		// before the range doesn't tell yet whether its span is selected.
		if g.full() && in {
			g.clamped = true
			return
		}
		s = &gathered{id: r.span}
		g.spans[r.span] = s
		if other, ok := g.foreign[r.span]; ok {
			g.keep(s, other) // which may be what later records are of
		}
	}
	if in && !s.inRange {
		if g.full() {
			g.clamped = true
			delete(g.spans, r.span)
			return
		}
		g.order++
		s.inRange, s.order = true, g.order
		if was := g.only[r.span]; was > 0 {
			s.order = was
		}
		g.inRange++
	}
	g.keep(s, r)
	if s.ended && s.base && !s.judged && g.q.filters() && g.only == nil {
		s.judged = true
		g.fresh = append(g.fresh, s)
	}
}

// elsewhere reports whether a record of a span that is not gathered is of another trace
// than the one that is wanted: it says so itself, or what the span began with did.
func (g *gatherer) elsewhere(r timed) bool {
	if g.q.TraceID.IsZero() {
		return false
	}
	if r.base() {
		if r.record.trace == g.q.TraceID {
			return false
		}
		g.foreign[r.span] = r
	}
	_, ok := g.foreign[r.span]
	return ok
}

// passedOver reports whether nothing is gathered of a span now.
func (g *gatherer) passedOver(id SpanID) bool {
	if g.only != nil {
		_, ok := g.only[id]
		return !ok
	}
	order, ok := g.refused[id]
	if ok {
		g.again[id] = order
	}
	return ok
}

// full reports whether no more spans are wanted: without filters each one counts.
func (g *gatherer) full() bool {
	return g.inRange >= g.limit && !g.q.filters() && g.q.TraceID.IsZero()
}

// base reports whether it is a record with which a span can begin.
func (r *timed) base() bool { return r.kind == kindStart || r.kind == kindSnapshot }

func (g *gatherer) keep(s *gathered, r timed) {
	if r.base() {
		hash := hashTrace(r.record.trace)
		s.mixed = s.mixed || s.base && s.trace != hash
		s.base, s.trace = true, hash
	}
	s.ended = s.ended || r.kind == kindEnd
	s.records = append(s.records, r)
}

// judge forgets a span that has ended and that nobody wants, or that is one too many, so
// that memory has the spans that are wanted, and not all.
func (g *gatherer) judge(s *gathered) {
	if s.mixed || s.restated(g.from) {
		return // there may be more of it before the range, or there are two
	}
	d := s.span()
	if !s.inRange || !g.q.matches(&d) {
		g.refuse(s)
		return
	}
	if g.matched++; g.matched < 2*g.limit+pageChunks {
		return
	}
	var done []*gathered
	for _, s := range g.spans {
		if s.ended && s.base && s.inRange {
			done = append(done, s)
		}
	}
	slices.SortFunc(done, func(a, b *gathered) int { return cmp.Compare(a.order, b.order) })
	for _, s := range done[min(g.limit, len(done)):] {
		g.refuse(s)
		g.clamped = true
	}
	g.matched = min(g.limit, len(done))
}

// refuse forgets a span.
func (g *gatherer) refuse(s *gathered) {
	if g.spans[s.id] != s {
		return // it was before
	}
	delete(g.spans, s.id)
	g.refused[s.id] = s.order
	if s.inRange {
		g.inRange--
	}
}

// result puts the spans together.
func (g *gatherer) result() []SpanData {
	var all []*gathered
	for _, s := range g.spans {
		if s.base && s.inRange {
			all = append(all, s.apart(g.from)...)
		}
	}
	all = slices.DeleteFunc(all, func(s *gathered) bool { return !s.inRange })
	slices.SortStableFunc(all, func(a, b *gathered) int { return cmp.Compare(a.order, b.order) })
	var out []SpanData
	for _, s := range all {
		d := s.span()
		if !g.q.matches(&d) {
			continue
		}
		if len(out) == g.limit {
			g.clamped = true
			break
		}
		out = append(out, d)
	}
	return out
}
