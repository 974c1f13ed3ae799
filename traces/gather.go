package traces

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/tidwall/btree"
)

// widest is how long a bucket is at most. Without the index, what was dated ahead is found if its
// bucket begins no longer than that before its time.
const widest = 24 * time.Hour

// A reader gathers the records of the spans that a query selects.
type reader struct {
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
	later     map[SpanID]*gathered // of spans that are recorded whole behind the range, where something of them may be

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

// newReader returns one that has gathered what q selects.
func newReader(ctx context.Context, snap *actorstore.Snapshot, q Query, maxRead int, memory []keyed) (*reader, error) {
	rd := &reader{
		scanner: &scanner{}, q: q, from: bound(q.Start, 0), to: bound(q.End, math.MaxUint64),
		resources: resources{},
	}
	if q.Limit < 0 || rd.to <= rd.from {
		return rd, nil
	}
	if rd.limit = maxRead; q.Limit > 0 {
		rd.limit = min(q.Limit, maxRead)
	}
	var err error
	if rd.scanner, err = newScanner(ctx, snap, memory); err != nil {
		return nil, err
	}
	return rd, rd.gather(ctx)
}

// gather reads everything, and forgets what it has gathered before.
func (rd *reader) gather(ctx context.Context) error {
	rd.spans, rd.first, rd.only, rd.fresh, rd.ripe = map[SpanID]*gathered{}, nil, nil, nil, nil
	rd.matched, rd.clamped, rd.pruned, rd.lossy = 0, rd.q.Limit > rd.limit, false, false
	rd.kept = btree.NewBTreeGOptions(startsBefore, btree.Options{NoLocks: true})
	rd.actives, rd.later = map[SpanID][]active{}, map[SpanID]*gathered{}
	rd.foreign = map[SpanID]timed{}
	rd.scanned = map[chunkKey]scanState{}
	rd.refused, rd.again = map[SpanID]bool{}, map[SpanID]bool{}
	if err := rd.scan(ctx, rd.candidates(), rd.add); err != nil {
		return err
	}
	for id, s := range rd.spans {
		if s.inRange && s.late {
			rd.again[id] = true
			delete(rd.spans, id)
		}
	}
	if len(rd.again) > 0 { // they were forgotten too soon, or met too late
		rd.only = rd.again
		if err := rd.scan(ctx, rd.candidates(), rd.add); err != nil {
			return err
		}
	}
	if !rd.q.TraceID.IsZero() || rd.first == nil || rd.from == 0 {
		return nil // all there is of them has been read
	}
	return rd.complete(ctx)
}

// candidates returns where the chunks are that may have records of the range, or of the
// trace.
func (rd *reader) candidates() []keyRange {
	start, end := chunksRange(rd.cat.layout)
	gaps := keyRange{start, end}
	if rd.to < math.MaxInt64 {
		gaps.end = bucketStart(rd.cat.layout, int64(rd.to/1e9)+1)
	}
	if !rd.q.TraceID.IsZero() {
		hash := hashTrace(rd.q.TraceID)
		return rd.cat.ranges(gaps, func(c *covered) bool { return c.min < rd.to && c.has(hash) })
	}
	if back := uint64(widest / time.Second); rd.from/1e9 > back {
		gaps.start = bucketStart(rd.cat.layout, int64(rd.from/1e9-back))
	}
	return rd.cat.ranges(gaps, func(c *covered) bool { return c.min < rd.to && c.max > rd.from })
}

// add takes the records of a chunk.
func (rd *reader) add(c keyed) error {
	state := rd.touches(c)
	rd.scanned[c.key] = state
	if !state.touches {
		return nil
	}
	if rd.first == nil {
		first := c.key
		rd.first = &first
	}
	rd.ran(c.active)
	for _, r := range c.timed(rd.resources.of) {
		if r.at < rd.to {
			rd.take(r)
		} else if r.base() {
			rd.wholeLater(r)
		}
	}
	ripe := rd.ripe
	rd.ripe, rd.fresh = rd.fresh, nil
	for _, s := range ripe {
		rd.judge(s)
	}
	return nil
}

// ran notes the spans that ran when a chunk was cut. Where a span began tells it from
// another one with its id.
func (rd *reader) ran(list []active) {
	for _, a := range list {
		known := rd.actives[a.span]
		if !slices.ContainsFunc(known, func(k active) bool { return k.start == a.start }) {
			rd.actives[a.span] = append(known, a)
		}
	}
}

// wholeLater notes where something may be of a span that r records whole, behind the range.
func (rd *reader) wholeLater(r timed) {
	s := rd.later[r.span]
	if s == nil {
		s = &gathered{id: r.span, since: nowhere()}
		rd.later[r.span] = s
	}
	s.add(r.record.trace)
	s.since = s.since.join(r.horizon(false))
}

// A scanState says of a chunk that was read whether it has records of the range, which one
// of the memory, or that the index doesn't cover, may not have; and some from before it.
type scanState struct{ touches, older bool }

func (rd *reader) touches(c keyed) (s scanState) {
	if !rd.q.TraceID.IsZero() {
		return scanState{touches: true}
	}
	for i := range c.records {
		at := c.base + c.records[i].offset
		s.touches = s.touches || at >= rd.from && at < rd.to
		s.older = s.older || at < rd.from
	}
	return s
}

// take takes a record that is before the end of the range.
func (rd *reader) take(r timed) {
	if rd.passedOver(r.span) {
		return
	}
	s := rd.spans[r.span]
	m := moment{r.at, r.place}
	in := r.at >= rd.from
	if s == nil {
		if rd.elsewhere(r) {
			return
		}
		if in && !rd.wanted(m) {
			return
		}
		s = &gathered{id: r.span, late: rd.lossy}
		rd.spans[r.span] = s
		if other, ok := rd.foreign[r.span]; ok {
			rd.keep(s, other) // which may be what later records are of
		}
	}
	if in && !rd.enter(s, m) {
		return
	}
	rd.keep(s, r)
	if s.ended && s.base && !s.judged && rd.q.filters() && rd.only == nil {
		s.judged = true
		rd.fresh = append(rd.fresh, s)
	}
}

// wanted reports whether a span whose first record in the range is at m is among those
// that are wanted so far. One more than the limit is left out, and the result says so.
func (rd *reader) wanted(m moment) bool {
	if !rd.full() {
		return true
	}
	if last, _ := rd.kept.Max(); m.compare(last.first) < 0 {
		return true
	}
	rd.clamped, rd.lossy = true, true
	return false
}

// enter notes that the span has a record in the range. It reports false for one too many,
// of which nothing is kept.
func (rd *reader) enter(s *gathered, m moment) bool {
	switch {
	case s.inRange && m.compare(s.first) >= 0:
		return true
	case s.inRange:
		if rd.counts() {
			rd.kept.Delete(s)
		}
		if s.first = m; rd.counts() {
			rd.kept.Set(s)
		}
		return true
	case !rd.wanted(m): // a record from before the range didn't tell
		delete(rd.spans, s.id)
		return false
	}
	s.inRange, s.first = true, m
	if !rd.counts() {
		return true
	}
	if rd.full() {
		last, _ := rd.kept.PopMax()
		delete(rd.spans, last.id)
		rd.clamped, rd.lossy = true, true
	}
	rd.kept.Set(s)
	return true
}

// counts reports whether each span with a record in the range is one of those that the
// limit allows: there are no filters.
func (rd *reader) counts() bool {
	return rd.only == nil && !rd.keepAll && !rd.q.filters() && rd.q.TraceID.IsZero()
}

// full reports whether there are as many as the limit allows.
func (rd *reader) full() bool { return rd.counts() && rd.kept.Len() >= rd.limit }

// elsewhere reports whether a record of a span that is not gathered is of another trace
// than the one that is wanted: it says so itself, or what the span began with did.
func (rd *reader) elsewhere(r timed) bool {
	if rd.q.TraceID.IsZero() {
		return false
	}
	if r.base() {
		if r.record.trace == rd.q.TraceID {
			return false
		}
		rd.foreign[r.span] = r
	}
	_, ok := rd.foreign[r.span]
	return ok
}

// passedOver reports whether nothing is gathered of a span now.
func (rd *reader) passedOver(id SpanID) bool {
	if rd.only != nil {
		return !rd.only[id]
	}
	if rd.refused[id] {
		rd.again[id] = true
	}
	return rd.refused[id]
}

func (rd *reader) keep(s *gathered, r timed) {
	if r.base() {
		s.base = true
		s.add(r.record.trace)
	}
	s.ended = s.ended || r.kind == kindEnd
	s.records = append(s.records, r)
}

// judge forgets a span that ended and isn't wanted, or that is one too many, so that memory
// holds the wanted spans, and not all.
func (rd *reader) judge(s *gathered) {
	if s.mixed() || s.restated(rd.from) || s.orphaned() {
		return // there may be more of it before the range, or there are two
	}
	d := s.span()
	if !s.inRange || !rd.q.behind(s.first) || !rd.q.matches(&d) {
		rd.refuse(s)
		return
	}
	s.matched = true
	if rd.matched++; rd.matched < 2*rd.limit+pageChunks || rd.keepAll {
		return
	}
	var done []*gathered
	for _, s := range rd.spans {
		if s.matched {
			done = append(done, s)
		}
	}
	slices.SortFunc(done, func(a, b *gathered) int { return a.first.compare(b.first) })
	for _, s := range done[min(rd.limit, len(done)):] {
		rd.refuse(s)
		rd.clamped, rd.pruned = true, true
	}
	rd.matched = min(rd.limit, len(done))
}

// refuse forgets a span.
func (rd *reader) refuse(s *gathered) {
	if rd.spans[s.id] != s {
		return // it was before
	}
	delete(rd.spans, s.id)
	rd.refused[s.id] = true
}

// result puts the spans together.
func (rd *reader) result() []SpanData {
	var all []*gathered
	for _, s := range rd.spans {
		if s.base && s.inRange {
			all = append(all, s.apart(rd.from)...)
		}
	}
	all = slices.DeleteFunc(all, func(s *gathered) bool { return !s.inRange })
	slices.SortFunc(all, func(a, b *gathered) int { return a.first.compare(b.first) })
	var out []SpanData
	rd.last = Position{}
	for _, s := range all {
		d := s.span()
		if !rd.q.behind(s.first) || !rd.q.matches(&d) {
			continue
		}
		if len(out) == rd.limit {
			rd.clamped = true
			break
		}
		out = append(out, d)
		rd.last = s.first.position()
	}
	return out
}
