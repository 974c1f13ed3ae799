package traces

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/tidwall/btree"
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
	matched   int // spans that have ended and match
	clamped   bool
	last      Position // of the last span of the result
	resources resources
	first     *chunkKey           // of the chunks read for the range
	actives   map[SpanID][]active // spans that ran when one of those was cut, by where they began
	scanned   map[chunkKey]scanState

	foreign map[SpanID]timed // what spans of other traces than the query's begin with

	// Of queries without filters. kept are the spans with records in the range: the last
	// makes room for one that turns out to be earlier. lossy says that spans were left out,
	// and parts of others with them.
	kept  *btree.BTreeG[*gathered]
	lossy bool

	// Of queries with filters. What says how a span ended may stand behind its end, most
	// often in the same chunk or the next: fresh are spans that ended in this chunk, ripe
	// those that ended in the one before.
	fresh, ripe []*gathered
	refused     map[SpanID]bool // forgotten
	pruned      bool            // some of them match
	keepAll     bool            // spans that match are not forgotten

	again map[SpanID]bool // spans of which something was left out
	only  map[SpanID]bool // unless it is nil, nothing else is gathered
}

// gather reads everything.
func (g *gatherer) gather(ctx context.Context) error {
	g.kept = btree.NewBTreeGOptions(startsBefore, btree.Options{NoLocks: true})
	g.actives = map[SpanID][]active{}
	g.foreign = map[SpanID]timed{}
	g.scanned = map[chunkKey]scanState{}
	g.refused, g.again = map[SpanID]bool{}, map[SpanID]bool{}
	if err := g.scan(ctx, g.candidates(), g.add); err != nil {
		return err
	}
	for id, s := range g.spans {
		if s.inRange && s.late {
			g.again[id] = true
			delete(g.spans, id)
		}
	}
	if len(g.again) > 0 { // they were forgotten too soon, or met too late
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
	start, end := chunksRange(g.cat.layout)
	gaps := keyRange{start, end}
	if g.to < math.MaxInt64 {
		gaps.end = bucketStart(g.cat.layout, int64(g.to/1e9)+1)
	}
	if !g.q.TraceID.IsZero() {
		hash := hashTrace(g.q.TraceID)
		return g.cat.ranges(gaps, func(c *covered) bool { return c.min < g.to && c.has(hash) })
	}
	if back := uint64(widest / time.Second); g.from/1e9 > back {
		gaps.start = bucketStart(g.cat.layout, int64(g.from/1e9-back))
	}
	return g.cat.ranges(gaps, func(c *covered) bool { return c.min < g.to && c.max > g.from })
}

// add takes the records of a chunk.
func (g *gatherer) add(c keyed) error {
	state := g.touches(c)
	g.scanned[c.key] = state
	if !state.touches {
		return nil
	}
	if g.first == nil {
		first := c.key
		g.first = &first
	}
	g.ran(c.active)
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

// ran notes the spans that ran when a chunk was cut. Where a span began tells it from
// another one with its id.
func (g *gatherer) ran(list []active) {
	for _, a := range list {
		known := g.actives[a.span]
		if !slices.ContainsFunc(known, func(k active) bool { return k.start == a.start }) {
			g.actives[a.span] = append(known, a)
		}
	}
}

// A scanState says of a chunk that was read whether it has records of the range, which one
// of the memory, or that the index doesn't cover, may not have; and some from before it.
type scanState struct{ touches, older bool }

func (g *gatherer) touches(c keyed) (s scanState) {
	if !g.q.TraceID.IsZero() {
		return scanState{touches: true}
	}
	for i := range c.records {
		at := c.base + c.records[i].offset
		s.touches = s.touches || at >= g.from && at < g.to
		s.older = s.older || at < g.from
	}
	return s
}

// take takes a record that is before the end of the range.
func (g *gatherer) take(r timed) {
	if g.passedOver(r.span) {
		return
	}
	s := g.spans[r.span]
	m := moment{r.at, r.place}
	in := r.at >= g.from
	if s == nil {
		if g.elsewhere(r) {
			return
		}
		if in && !g.wanted(m) {
			return
		}
		s = &gathered{id: r.span, late: g.lossy}
		g.spans[r.span] = s
		if other, ok := g.foreign[r.span]; ok {
			g.keep(s, other) // which may be what later records are of
		}
	}
	if in && !g.enter(s, m) {
		return
	}
	g.keep(s, r)
	if s.ended && s.base && !s.judged && g.q.filters() && g.only == nil {
		s.judged = true
		g.fresh = append(g.fresh, s)
	}
}

// wanted reports whether a span whose first record in the range is at m is among those
// that are wanted so far. One more than the limit is left out, and the result says so.
func (g *gatherer) wanted(m moment) bool {
	if !g.full() {
		return true
	}
	if last, _ := g.kept.Max(); m.compare(last.first) < 0 {
		return true
	}
	g.clamped, g.lossy = true, true
	return false
}

// enter notes that the span has a record in the range. It reports false for one too many,
// of which nothing is kept.
func (g *gatherer) enter(s *gathered, m moment) bool {
	switch {
	case s.inRange && m.compare(s.first) >= 0:
		return true
	case s.inRange:
		if g.counts() {
			g.kept.Delete(s)
		}
		if s.first = m; g.counts() {
			g.kept.Set(s)
		}
		return true
	case !g.wanted(m): // a record from before the range didn't tell
		delete(g.spans, s.id)
		return false
	}
	s.inRange, s.first = true, m
	if !g.counts() {
		return true
	}
	if g.full() {
		last, _ := g.kept.PopMax()
		delete(g.spans, last.id)
		g.clamped, g.lossy = true, true
	}
	g.kept.Set(s)
	return true
}

// counts reports whether each span with a record in the range is one of those that the
// limit allows: there are no filters.
func (g *gatherer) counts() bool {
	return g.only == nil && !g.keepAll && !g.q.filters() && g.q.TraceID.IsZero()
}

// full reports whether there are as many as the limit allows.
func (g *gatherer) full() bool { return g.counts() && g.kept.Len() >= g.limit }

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
		return !g.only[id]
	}
	if g.refused[id] {
		g.again[id] = true
	}
	return g.refused[id]
}

// base reports whether it is a record with which a span can begin.
func (r *record) base() bool { return r.kind == kindStart || r.kind == kindSnapshot }

func (g *gatherer) keep(s *gathered, r timed) {
	if r.base() {
		s.base = true
		if h := hashTrace(r.record.trace); !slices.Contains(s.traces, h) {
			s.traces = append(s.traces, h)
		}
	}
	s.ended = s.ended || r.kind == kindEnd
	s.records = append(s.records, r)
}

// judge forgets a span that ended and isn't wanted, or that is one too many, so that memory
// holds the wanted spans, and not all.
func (g *gatherer) judge(s *gathered) {
	if s.mixed() || s.restated(g.from) || s.orphaned() {
		return // there may be more of it before the range, or there are two
	}
	d := s.span()
	if !s.inRange || !g.q.behind(s.first) || !g.q.matches(&d) {
		g.refuse(s)
		return
	}
	s.matched = true
	if g.matched++; g.matched < 2*g.limit+pageChunks || g.keepAll {
		return
	}
	var done []*gathered
	for _, s := range g.spans {
		if s.matched {
			done = append(done, s)
		}
	}
	slices.SortFunc(done, func(a, b *gathered) int { return a.first.compare(b.first) })
	for _, s := range done[min(g.limit, len(done)):] {
		g.refuse(s)
		g.clamped, g.pruned = true, true
	}
	g.matched = min(g.limit, len(done))
}

// refuse forgets a span.
func (g *gatherer) refuse(s *gathered) {
	if g.spans[s.id] != s {
		return // it was before
	}
	delete(g.spans, s.id)
	g.refused[s.id] = true
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
	slices.SortFunc(all, func(a, b *gathered) int { return a.first.compare(b.first) })
	var out []SpanData
	g.last = Position{}
	for _, s := range all {
		d := s.span()
		if !g.q.behind(s.first) || !g.q.matches(&d) {
			continue
		}
		if len(out) == g.limit {
			g.clamped = true
			break
		}
		out = append(out, d)
		g.last = s.first.position()
	}
	return out
}

// startsBefore is the order of spans by their first records in the range.
func startsBefore(s, o *gathered) bool {
	return cmp.Or(s.first.compare(o.first), bytes.Compare(s.id[:], o.id[:])) < 0
}
