package traces

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// DefaultMaxChunks is Query.MaxChunks unless it says otherwise.
const DefaultMaxChunks = 64

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
		s.begins, s.whole, s.since = a.start, a.snapshot.value, a.start.chunk
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
	start := spans[0].since
	byID := map[SpanID]*gathered{}
	for _, s := range spans {
		byID[s.id] = s
		if s.since.compare(start) < 0 {
			start = s.since
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
		if k, ok := since[s.trace]; !ok || s.since.compare(k) < 0 {
			since[s.trace] = s.since
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
	// The newest first: of attributes the last value counts.
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		if budget--; budget < 0 {
			partly(spans)
			return nil
		}
		k := keys[len(keys)-1]
		damaged := len(g.damaged)
		if err := g.stored(ctx, []keyRange{{appendChunkKey(nil, k), afterChunk(k)}}, take); err != nil {
			return err
		}
		if len(g.damaged) > damaged {
			partly(spans) // of which it was, nobody knows
		}
	}
	return nil
}

// partly says of spans that something of them is missing.
func partly(spans map[SpanID]*gathered) {
	for _, s := range spans {
		s.partial = true
	}
}

func (g *gatherer) inMemory(k chunkKey) bool {
	return slices.ContainsFunc(g.memory, func(c keyed) bool { return c.key == k })
}
