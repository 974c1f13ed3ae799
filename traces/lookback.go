package traces

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
)

// defaultMaxChunks is Query.MaxChunks unless it says otherwise.
const defaultMaxChunks = 64

// complete reads what is missing of the spans of the range: what they began with, and
// what was recorded of them before the range, wherever that is.
func (g *gatherer) complete(ctx context.Context) error {
	var all, missing []*gathered
	for _, s := range g.spans {
		if !s.inRange {
			continue
		}
		all = append(all, s)
		if !s.starts() || s.mixed() || s.orphaned() || g.elsewhereBegun(s) {
			missing = append(missing, s)
		}
	}
	for _, listed := range []bool{true, false} {
		if err := g.lookBack(ctx, missing, listed); err != nil {
			return err
		}
		if err := g.bases(ctx, missing); err != nil {
			return err
		}
		// What lists of running spans say may be behind the range, of those dated back.
		missing = slices.DeleteFunc(missing, func(s *gathered) bool { return s.base })
	}
	found := slices.DeleteFunc(all, func(s *gathered) bool { return !s.base })
	for _, s := range found {
		s.since = s.horizon()
	}
	return g.between(ctx, found, cmp.Or(g.q.MaxChunks, defaultMaxChunks))
}

// elsewhereBegun reports whether a span with the id ran that began in a chunk of which
// nothing was taken.
func (g *gatherer) elsewhereBegun(s *gathered) bool {
	return slices.ContainsFunc(g.actives[s.id], func(a active) bool { return !g.taken(a.start.chunk) })
}

// taken reports whether all that the chunk has of spans of the range was gathered.
func (g *gatherer) taken(k chunkKey) bool {
	s, ok := g.scanned[k]
	return ok && (s.touches || !s.older)
}

// maxBack is how many chunks before a record are searched for the beginning of its span.
// The last one has it, unless something was dated back into its bucket since.
const maxBack = 8

// lookBack searches the chunks before the first records of the spans. Those that are listed
// among the running ones of some chunk are not searched for: others ended in the first one
// of the range, or were dated.
func (g *gatherer) lookBack(ctx context.Context, missing []*gathered, listed bool) error {
	before := map[chunkKey]optional[chunkKey]{} // what was looked at, with the one before it
	for _, s := range missing {
		at := s.start(false).chunk
		for i := range maxBack {
			// Of one with a beginning nothing may be missing but events, or a span with its id.
			if s.base && i > 0 || !s.base && listed && len(g.actives[s.id]) > 0 {
				break
			}
			last, ok := before[at]
			if !ok {
				var err error
				if last, err = g.lookAt(ctx, at); err != nil {
					return err
				}
				before[at] = last
			}
			if at = last.value; !last.set {
				break
			}
		}
	}
	return nil
}

// lookAt notes what spans ran when the chunk before another was cut, and what began in it.
func (g *gatherer) lookAt(ctx context.Context, next chunkKey) (k optional[chunkKey], err error) {
	if k, err = g.keyBefore(ctx, next); err != nil || !k.set || g.scanned[k.value].touches {
		return k, err
	}
	c, err := g.chunk(ctx, k.value)
	if err == nil && c != nil {
		g.runners(keyed{k.value, c})
	}
	return k, err
}

// runners notes what spans ran when a chunk was cut, and what began in it.
func (g *gatherer) runners(c keyed) {
	g.ran(c.active)
	for i := range c.records {
		if r := &c.records[i]; r.base() {
			g.ran([]active{{span: r.span, start: place{c.key, uint32(i)}}})
		}
	}
}

// bases reads the records with which the spans began, of chunks of which nothing was taken.
func (g *gatherer) bases(ctx context.Context, missing []*gathered) error {
	wanted := map[chunkKey][]*gathered{}
	want := func(s *gathered, p place) {
		if g.taken(p.chunk) || slices.Contains(s.begins, p) {
			return
		}
		s.begins = append(s.begins, p)
		if !slices.Contains(wanted[p.chunk], s) {
			wanted[p.chunk] = append(wanted[p.chunk], s)
		}
	}
	for _, s := range missing {
		for _, a := range g.actives[s.id] {
			want(s, a.start)
			if a.snapshot.set {
				want(s, a.snapshot.value)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(wanted), chunkKey.compare)
	for _, k := range keys {
		c, err := g.chunk(ctx, k)
		if err != nil {
			return err
		}
		if c != nil {
			g.takeBases(keyed{k, c}, wanted[k])
		}
	}
	return nil
}

// takeBases takes the records of a chunk with which the spans began.
func (g *gatherer) takeBases(c keyed, spans []*gathered) {
	for _, r := range c.timed(g.resources.of) {
		if !r.base() || r.at >= g.to {
			continue
		}
		for _, s := range spans {
			if r.span == s.id && slices.Contains(s.begins, r.place) {
				g.keep(s, r)
			}
		}
	}
}

// between reads what happened to the spans before the range, since their horizons, as far as
// the budget allows, the newest first. Most of it is in the chunks between the beginning and
// the range, and what was dated back in others.
func (g *gatherer) between(ctx context.Context, spans []*gathered, budget int) error {
	byID := map[SpanID]*gathered{}
	for _, s := range spans {
		if s.since.at < g.from || s.since.key.bucket <= int64(g.from/1e9) {
			byID[s.id] = s
		}
	}
	if len(byID) == 0 {
		return nil
	}
	keys, err := g.keysBetween(ctx, byID)
	if err != nil {
		return err
	}
	return g.backwards(ctx, keys, budget, byID)
}

// keysBetween returns the keys of the chunks that may have records of the spans from before
// the range: those that are covered are known, for others the store is asked.
func (g *gatherer) keysBetween(ctx context.Context, spans map[SpanID]*gathered) (keys []chunkKey, err error) {
	since, all := map[uint64]horizon{}, nowhere() // by trace
	for _, s := range spans {
		all = all.join(s.since)
		for _, h := range s.traces {
			known, ok := since[h]
			if !ok {
				known = nowhere()
			}
			since[h] = known.join(s.since)
		}
	}
	for i := range g.cat.chunks {
		c := &g.cat.chunks[i]
		if c.min >= g.from || !c.within(all) || g.taken(c.key) || g.inMemory(c.key) {
			continue
		}
		for h, from := range since {
			if c.within(from) && c.has(h) {
				keys = append(keys, c.key)
				break
			}
		}
	}
	// A record isn't earlier than its bucket: those that begin behind the range have none.
	gaps := keyRange{appendChunkKey(g.cat.layout, nil, all.gaps), bucketStart(g.cat.layout, int64(g.from/1e9)+1)}
	for _, r := range g.cat.ranges(gaps, func(*covered) bool { return false }) {
		for e, err := range g.snap.Survey(ctx, r.start, r.end) {
			if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
				return nil, err
			}
			if k, ok := parseChunkKey(g.cat.layout, e.Key); ok && !g.taken(k) && !g.inMemory(k) {
				keys = append(keys, k)
			}
		}
	}
	slices.SortFunc(keys, chunkKey.compare)
	return keys, nil
}

// within reports whether the chunk is where a horizon says.
func (c *covered) within(h horizon) bool { return c.max > h.at || c.key.compare(h.key) >= 0 }

// backwards takes the records of the spans in the chunks, from the last one on.
func (g *gatherer) backwards(ctx context.Context, keys []chunkKey, budget int, spans map[SpanID]*gathered) error {
	take := func(c keyed) error {
		for _, r := range c.timed(g.resources.of) {
			s := spans[r.span]
			if s != nil && r.at < g.to && (r.at >= s.since.at || c.key.compare(s.since.key) >= 0) && !slices.Contains(s.begins, r.place) {
				g.keep(s, r)
			}
		}
		return nil
	}
	for _, c := range g.memory {
		if !g.taken(c.key) {
			if err := take(c); err != nil {
				return err
			}
		}
	}
	// The newest first: of attributes the last value counts.
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		k := keys[len(keys)-1]
		if budget--; budget < 0 {
			g.partly(keys, spans)
			return nil
		}
		damaged := len(g.damaged)
		if err := g.stored(ctx, []keyRange{{appendChunkKey(g.cat.layout, nil, k), afterChunk(g.cat.layout, k)}}, take); err != nil {
			return err
		}
		if len(g.damaged) > damaged {
			g.partly([]chunkKey{k}, spans)
		}
	}
	return nil
}

// partly says of the spans that may have something in the chunks that it is missing.
func (g *gatherer) partly(keys []chunkKey, spans map[SpanID]*gathered) {
	for _, k := range keys {
		c, known := g.cat.find(k)
		for _, s := range spans {
			has := func(h uint64) bool { return !known || c.within(s.since) && c.has(h) }
			s.partial = s.partial || slices.ContainsFunc(s.traces, has)
		}
	}
}

func (g *gatherer) inMemory(k chunkKey) bool {
	return slices.ContainsFunc(g.memory, func(c keyed) bool { return c.key == k })
}
