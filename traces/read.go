package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// DefaultMaxChunks is Query.MaxChunks unless it says otherwise.
const DefaultMaxChunks = 64

// widest is how long the buckets of other writers are at most.
const widest = 24 * time.Hour

// Read returns the spans that q selects, also those that are not written yet.
//
// Errors are those of reading the store, and ErrClosed; damage is in the Result. An End
// that is not behind Start, or a negative Limit, selects nothing.
func (t *Traces) Read(ctx context.Context, q Query) (res *Result, err error) {
	err = t.reading(ctx, func(snap *actorstore.Snapshot, memory []keyed) error {
		res, err = read(ctx, snap, q, t.opts.MaxRead, memory)
		return err
	})
	return res, err
}

// reading calls fn with what is stored, and what is not known to be.
func (t *Traces) reading(ctx context.Context, fn func(snap *actorstore.Snapshot, memory []keyed) error) error {
	// What waits to be written is looked at before what is stored: in between it may get
	// there, and is then met twice and not never.
	memory, err := t.unwritten(ctx)
	if err != nil {
		return fmt.Errorf("traces: read: %w", err)
	}
	if t.betweenLooks != nil {
		t.betweenLooks()
	}
	snap, err := t.actor.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("traces: read: %w", err)
	}
	return errors.Join(fn(snap, memory), snap.Close())
}

// Read returns the spans that q selects of those that are stored: of an actor that
// somebody else owns (actorstore.View has a Snapshot), or of an earlier state. maxRead is
// Options.MaxRead, with the same default.
func Read(ctx context.Context, s *actorstore.Snapshot, q Query, maxRead int) (*Result, error) {
	return read(ctx, s, q, orDefault(maxRead, DefaultMaxRead), nil)
}

// unwritten returns the chunks that are not known to be stored: those that wait, and what
// the next ones have so far.
func (t *Traces) unwritten(ctx context.Context) (memory []keyed, err error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	all := slices.Clone(t.queue)
	for _, b := range t.open {
		// What is there so far doesn't change: more is put behind it.
		p := b.cut(t.refs(), t.refBytes, 0)
		p.strings, p.records = slices.Clip(p.strings), slices.Clip(p.records)
		all = append(all, p)
	}
	t.mu.Unlock()
	for _, p := range all {
		if err := t.resolveAll(ctx, p); err != nil {
			return nil, err
		}
		c, err := parseChunk(p.encode())
		if err != nil {
			return nil, err
		}
		memory = append(memory, keyed{p.key(), c})
	}
	return memory, nil
}

func read(ctx context.Context, snap *actorstore.Snapshot, q Query, maxRead int, memory []keyed) (*Result, error) {
	g, err := newGatherer(ctx, snap, q, maxRead, memory)
	if err != nil {
		return nil, fmt.Errorf("traces: read: %w", err)
	}
	spans := g.result()
	return &Result{spans, g.limit, g.clamped, g.damaged, g.read}, nil
}

// newGatherer returns one that has gathered what q selects.
func newGatherer(ctx context.Context, snap *actorstore.Snapshot, q Query, maxRead int, memory []keyed) (*gatherer, error) {
	g := &gatherer{
		scanner: &scanner{}, q: q, from: bound(q.Start, 0), to: bound(q.End, math.MaxUint64),
		spans: map[SpanID]*gathered{}, resources: resources{},
	}
	if q.Limit < 0 || g.to <= g.from {
		return g, nil
	}
	if g.limit = maxRead; q.Limit > 0 {
		g.limit, g.clamped = min(q.Limit, maxRead), q.Limit > maxRead
	}
	var err error
	if g.scanner, err = newScanner(ctx, snap, memory); err != nil {
		return nil, err
	}
	return g, g.gather(ctx)
}

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
}

// gather reads everything.
func (g *gatherer) gather(ctx context.Context) error {
	g.actives = map[SpanID]active{}
	if err := g.scan(ctx, g.candidates(), g.add); err != nil {
		return err
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
	s := g.spans[r.span]
	in := r.at >= g.from
	if s == nil {
		if r.base() && !g.q.TraceID.IsZero() && r.trace != g.q.TraceID {
			return
		}
		if g.full() && in {
			g.clamped = true
			return
		}
		s = &gathered{id: r.span}
		g.spans[r.span] = s
	}
	if in && !s.inRange {
		if g.full() {
			g.clamped = true
			delete(g.spans, r.span)
			return
		}
		g.order++
		s.inRange, s.order = true, g.order
		g.inRange++
	}
	g.keep(s, r)
	if s.ended && s.base && g.q.filters() {
		g.judge(s)
	}
}

// full reports whether no more spans are wanted: without filters each one counts.
func (g *gatherer) full() bool {
	return g.inRange >= g.limit && !g.q.filters() && g.q.TraceID.IsZero()
}

// base reports whether it is a record with which a span can begin.
func (r *timed) base() bool { return r.kind == kindStart || r.kind == kindSnapshot }

func (g *gatherer) keep(s *gathered, r timed) {
	if r.base() {
		s.base, s.trace = true, hashTrace(r.record.trace)
	}
	s.ended = s.ended || r.kind == kindEnd
	s.records = append(s.records, r)
}

// judge forgets a span that has ended and that nobody wants, or that is one too many, so
// that memory has the spans that are wanted, and not all.
func (g *gatherer) judge(s *gathered) {
	d := s.span()
	if !s.inRange || !g.q.matches(&d) {
		delete(g.spans, s.id)
		if s.inRange {
			g.inRange--
		}
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
		delete(g.spans, s.id)
		g.inRange--
		g.clamped = true
	}
	g.matched = min(g.limit, len(done))
}

// complete reads what is missing of the spans that began before the chunks of the range.
func (g *gatherer) complete(ctx context.Context) error {
	var missing []*gathered
	for _, s := range g.spans {
		if s.inRange && (!s.base || s.restated(g.from)) {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := g.lookBack(ctx, missing); err != nil {
		return err
	}
	budget := orDefault(g.q.MaxChunks, DefaultMaxChunks)
	slices.SortFunc(missing, func(a, b *gathered) int { return cmp.Compare(a.order, b.order) })
	missing, err := g.bases(ctx, missing)
	if err != nil || len(missing) == 0 {
		return err
	}
	return g.between(ctx, missing, budget)
}

// maxBack is how many chunks before those of the range are searched for the beginnings of
// spans. The last one has them, unless something was dated back into its bucket since.
const maxBack = 8

// lookBack searches the chunks before those of the range, if a span isn't among those that
// ran in these: it is one that ended in the first.
func (g *gatherer) lookBack(ctx context.Context, missing []*gathered) error {
	at := *g.first
	for i := range maxBack {
		missing = slices.DeleteFunc(slices.Clone(missing), func(s *gathered) bool {
			_, ok := g.actives[s.id]
			return ok || s.base && i > 0 // nothing may be missing of it but events
		})
		if len(missing) == 0 {
			return nil
		}
		c, ok, err := g.before(ctx, at)
		if err != nil || !ok {
			return err
		}
		if at = c.key; c.chunk == nil {
			continue
		}
		for _, a := range c.active {
			if _, ok := g.actives[a.span]; !ok {
				g.actives[a.span] = a
			}
		}
		for _, r := range c.timed(g.resources.of) {
			if _, ok := g.actives[r.span]; !ok && r.base() {
				g.actives[r.span] = active{span: r.span, start: r.place}
			}
		}
	}
	return nil
}

// bases reads the records with which the spans begin, and returns the spans for which
// there are some.
func (g *gatherer) bases(ctx context.Context, missing []*gathered) (found []*gathered, err error) {
	wanted := map[chunkKey][]*gathered{}
	for _, s := range missing {
		a, ok := g.actives[s.id]
		if !ok || s.base && (g.first == nil || a.start.chunk.compare(*g.first) >= 0) {
			continue
		}
		s.sought = true
		s.begins, s.whole = a.start, a.snapshot.value
		wanted[a.start.chunk] = append(wanted[a.start.chunk], s)
		if a.snapshot.set && a.snapshot.value.chunk != a.start.chunk {
			wanted[a.snapshot.value.chunk] = append(wanted[a.snapshot.value.chunk], s)
		}
	}
	keys := make([]chunkKey, 0, len(wanted))
	for k := range wanted {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, chunkKey.compare)
	for _, k := range keys {
		c, err := g.chunk(ctx, k)
		if err != nil {
			return nil, err
		}
		if c != nil {
			g.takeBases(keyed{k, c}, wanted[k])
		}
	}
	for _, s := range missing {
		if s.base && s.sought {
			found = append(found, s)
		}
	}
	return found, nil
}

// takeBases takes the records of a chunk with which the spans begin.
func (g *gatherer) takeBases(c keyed, spans []*gathered) {
	for _, r := range c.timed(g.resources.of) {
		if !r.base() || r.at >= g.to {
			continue
		}
		for _, s := range spans {
			if r.span == s.id && (r.place == s.begins || r.place == s.whole) {
				g.keep(s, r)
			}
		}
	}
}

// between reads what happened to the spans between their beginning and the chunks of the
// range, as far as the budget allows, the newest first.
func (g *gatherer) between(ctx context.Context, spans []*gathered, budget int) error {
	start := spans[0].begins.chunk
	byID := map[SpanID]*gathered{}
	for _, s := range spans {
		byID[s.id] = s
		if s.begins.chunk.compare(start) < 0 {
			start = s.begins.chunk
		}
	}
	keys, err := g.keysBetween(ctx, start, byID)
	if err != nil {
		return err
	}
	return g.backwards(ctx, keys, budget, byID)
}

// keysBetween returns the keys of the chunks from start to those of the range that may have
// records of the spans: those that are covered are known, for others the store is asked.
func (g *gatherer) keysBetween(ctx context.Context, start chunkKey, spans map[SpanID]*gathered) (keys []chunkKey, err error) {
	since := map[uint64]chunkKey{} // by trace
	for _, s := range spans {
		if k, ok := since[s.trace]; !ok || s.begins.chunk.compare(k) < 0 {
			since[s.trace] = s.begins.chunk
		}
	}
	for i := range g.cat.chunks {
		c := &g.cat.chunks[i]
		if c.key.compare(start) < 0 || c.key.compare(*g.first) >= 0 || g.inMemory(c.key) {
			continue
		}
		for h, from := range since {
			if c.key.compare(from) >= 0 && c.has(h) {
				keys = append(keys, c.key)
				break
			}
		}
	}
	gaps := keyRange{appendChunkKey(nil, start), appendChunkKey(nil, *g.first)}
	for _, r := range g.cat.ranges(gaps, func(*covered) bool { return false }) {
		for e, err := range g.snap.Survey(ctx, r.start, r.end) {
			if err != nil && (e.Key == nil || !errors.Is(err, ErrCorrupt)) {
				return nil, err
			}
			if k, ok := parseChunkKey(e.Key); ok && !g.inMemory(k) {
				keys = append(keys, k)
			}
		}
	}
	slices.SortFunc(keys, chunkKey.compare)
	return keys, nil
}

// backwards takes the records of the spans in the chunks, from the last one on.
func (g *gatherer) backwards(ctx context.Context, keys []chunkKey, budget int, spans map[SpanID]*gathered) error {
	take := func(c keyed) error {
		for _, r := range c.timed(g.resources.of) {
			if s := spans[r.span]; s != nil && r.at < g.to && r.place != s.begins && r.place != s.whole {
				g.keep(s, r)
			}
		}
		return nil
	}
	for _, c := range g.memory {
		if c.key.compare(*g.first) < 0 {
			if err := take(c); err != nil {
				return err
			}
		}
	}
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		if budget--; budget < 0 {
			for _, s := range spans {
				s.partial = true
			}
			return nil
		}
		k := keys[len(keys)-1]
		if err := g.stored(ctx, []keyRange{{appendChunkKey(nil, k), afterChunk(k)}}, take); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherer) inMemory(k chunkKey) bool {
	return slices.ContainsFunc(g.memory, func(c keyed) bool { return c.key == k })
}

// result puts the spans together.
func (g *gatherer) result() []SpanData {
	var all []*gathered
	for _, s := range g.spans {
		if s.base && s.inRange {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *gathered) int { return cmp.Compare(a.order, b.order) })
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
