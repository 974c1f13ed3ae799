package traces

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
)

// defaultMaxChunks is Query.MaxChunks unless it says otherwise.
const defaultMaxChunks = 64

// complete reads what is missing of the spans of the range: what they began with, and
// what was recorded of them before the range, wherever that is.
func (rd *reader) complete(ctx context.Context) error {
	var all, missing []*gathered
	for _, s := range rd.spans {
		if !s.inRange {
			continue
		}
		all = append(all, s)
		if !s.starts() || s.mixed() || s.orphaned() || rd.elsewhereBegun(s) {
			missing = append(missing, s)
		}
	}
	for _, listed := range []bool{true, false} {
		if err := rd.lookBack(ctx, missing, listed); err != nil {
			return err
		}
		if err := rd.bases(ctx, missing); err != nil {
			return err
		}
		// What lists of running spans say may be behind the range, of those dated back.
		missing = slices.DeleteFunc(missing, func(s *gathered) bool { return s.base })
	}
	for _, s := range all {
		s.since = s.horizon()
		if later := rd.later[s.id]; !s.base && later != nil {
			// If its end was dated back to an hour before the range, it is whole there, too.
			s.traces, s.since = later.traces, later.since
		}
	}
	return rd.between(ctx, all, cmp.Or(rd.q.MaxChunks, defaultMaxChunks))
}

// elsewhereBegun reports whether a span with the id ran that began in a chunk of which
// nothing was taken.
func (rd *reader) elsewhereBegun(s *gathered) bool {
	return slices.ContainsFunc(rd.actives[s.id], func(a active) bool { return !rd.taken(a.start.chunk) })
}

// taken reports whether all that the chunk has of spans of the range was gathered.
func (rd *reader) taken(k chunkKey) bool {
	s, ok := rd.scanned[k]
	return ok && (s.touches || !s.older)
}

// maxBack is how many chunks before a record are searched for the beginning of its span.
// The last one has it, unless something was dated back into its bucket since.
const maxBack = 8

// lookBack searches the chunks before the first records of the spans. Those that are listed
// among the running ones of some chunk are not searched for: others ended in the first one
// of the range, or were dated.
func (rd *reader) lookBack(ctx context.Context, missing []*gathered, listed bool) error {
	before := map[chunkKey]optional[chunkKey]{} // what was looked at, with the one before it
	for _, s := range missing {
		at := s.start(false).chunk
		for i := range maxBack {
			// Of one with a beginning nothing may be missing but events, or a span with its id.
			if s.base && i > 0 || !s.base && listed && len(rd.actives[s.id]) > 0 {
				break
			}
			last, ok := before[at]
			if !ok {
				var err error
				if last, err = rd.lookAt(ctx, at); err != nil {
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
func (rd *reader) lookAt(ctx context.Context, next chunkKey) (k optional[chunkKey], err error) {
	if k, err = rd.keyBefore(ctx, next); err != nil || !k.set || rd.scanned[k.value].touches {
		return k, err
	}
	c, err := rd.chunk(ctx, k.value)
	if err == nil && c != nil {
		rd.runners(keyed{k.value, c})
	}
	return k, err
}

// runners notes what spans ran when a chunk was cut, and what began in it.
func (rd *reader) runners(c keyed) {
	rd.ran(c.active)
	for i := range c.records {
		if r := &c.records[i]; r.base() {
			rd.ran([]active{{span: r.span, start: place{c.key, uint32(i)}}})
		}
	}
}

// bases reads the records with which the spans began, of chunks of which nothing was taken.
func (rd *reader) bases(ctx context.Context, missing []*gathered) error {
	wanted := map[chunkKey][]*gathered{}
	want := func(s *gathered, p place) {
		if rd.scanned[p.chunk].touches || slices.Contains(s.begins, p) {
			return
		}
		s.begins = append(s.begins, p)
		if !slices.Contains(wanted[p.chunk], s) {
			wanted[p.chunk] = append(wanted[p.chunk], s)
		}
	}
	for _, s := range missing {
		for _, a := range rd.actives[s.id] {
			want(s, a.start)
			if a.snapshot.set {
				want(s, a.snapshot.value)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(wanted), chunkKey.compare)
	for _, k := range keys {
		c, err := rd.chunk(ctx, k)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		for _, r := range (keyed{k, c}).timed(rd.resources.of) {
			for _, s := range wanted[k] {
				switch {
				case !r.base() || r.span != s.id || !slices.Contains(s.begins, r.place):
				case r.at < rd.to:
					rd.keep(s, r)
				default:
					rd.wholeLater(r)
				}
			}
		}
	}
	return nil
}

// between reads what happened to the spans before the range, since their horizons, as far as
// the budget allows, the newest first. Most of it is in the chunks between the beginning and
// the range, and what was dated back in others.
func (rd *reader) between(ctx context.Context, spans []*gathered, budget int) error {
	byID := map[SpanID]*gathered{}
	for _, s := range spans {
		if s.since.at < rd.from || s.since.key.bucket <= int64(rd.from/1e9) {
			byID[s.id] = s
		}
	}
	if len(byID) == 0 {
		return nil
	}
	keys, err := rd.keysBetween(ctx, byID)
	if err != nil {
		return err
	}
	return rd.backwards(ctx, keys, budget, byID)
}

// keysBetween returns the keys of the chunks that may have records of the spans from before
// the range: those that are covered are known, for others the store is asked.
func (rd *reader) keysBetween(ctx context.Context, spans map[SpanID]*gathered) (keys []chunkKey, err error) {
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
	for i := range rd.cat.chunks {
		c := &rd.cat.chunks[i]
		if c.min >= rd.from || !c.within(all) || rd.taken(c.key) || rd.inMemory(c.key) {
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
	gaps := keyRange{appendChunkKey(rd.cat.layout, nil, all.gaps), bucketStart(rd.cat.layout, int64(rd.from/1e9)+1)}
	for _, r := range rd.cat.ranges(gaps, func(*covered) bool { return false }) {
		for k, err := range surveyed(ctx, rd.snap, r.start, r.end) {
			if err != nil {
				return nil, err
			}
			if !rd.taken(k) && !rd.inMemory(k) {
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
func (rd *reader) backwards(ctx context.Context, keys []chunkKey, budget int, spans map[SpanID]*gathered) error {
	take := func(c keyed) error {
		for _, r := range c.timed(rd.resources.of) {
			s := spans[r.span]
			if s != nil && r.at < rd.to && (r.at >= s.since.at || c.key.compare(s.since.key) >= 0) && !slices.Contains(s.begins, r.place) {
				rd.keep(s, r)
			}
		}
		return nil
	}
	for _, c := range rd.memory {
		if !rd.taken(c.key) {
			if err := take(c); err != nil {
				return err
			}
		}
	}
	// The newest first: of attributes the last value counts.
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		k := keys[len(keys)-1]
		if budget--; budget < 0 {
			rd.partly(keys, spans)
			return nil
		}
		damaged := len(rd.damaged)
		if err := rd.stored(ctx, []keyRange{{appendChunkKey(rd.cat.layout, nil, k), afterChunk(rd.cat.layout, k)}}, take); err != nil {
			return err
		}
		if len(rd.damaged) > damaged {
			rd.partly([]chunkKey{k}, spans)
		}
	}
	return nil
}

// partly says of the spans that may have something in the chunks that it is missing.
func (rd *reader) partly(keys []chunkKey, spans map[SpanID]*gathered) {
	for _, k := range keys {
		c, known := rd.cat.find(k)
		for _, s := range spans {
			has := func(h uint64) bool { return !known || c.within(s.since) && c.has(h) }
			s.partial = s.partial || slices.ContainsFunc(s.traces, has)
		}
	}
}

// newLookback returns one that selects nothing, and finds what is behind everything.
func newLookback(s *scanner) *reader {
	return &reader{
		scanner: s, from: math.MaxUint64, to: math.MaxUint64, resources: resources{}, actives: map[SpanID][]active{},
		later: map[SpanID]*gathered{},
	}
}

// leftOpen returns the spans that are stored and have no end, oldest first: those that ran
// when the newest chunk was cut. If ends that were recorded until then were not stored by
// then, and the chunk lists nothing of their spans, since says from what chunk on to look
// for others. With whole, everything that was recorded of them is read, and not only their beginnings.
func (rd *reader) leftOpen(ctx context.Context, newest keyed, since optional[numbered], whole bool) (open []*gathered, err error) {
	rd.ran(newest.active)
	if since.set {
		err := rd.scan(ctx, rd.cat.since(since.value), func(c keyed) error {
			rd.runners(c)
			rd.snapshots(c.active)
			return nil
		})
		if err != nil {
			return nil, err
		}
		rd.snapshots(newest.active)
	}
	var found []*gathered
	for id := range rd.actives {
		found = append(found, &gathered{id: id})
	}
	if err := rd.bases(ctx, found); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(s *gathered) bool { return !s.base })
	for _, s := range found {
		switch last := s.newest().chunk; {
		case since.set: // ends may be anywhere: a program dates them as it likes
		case s.mixed():
			s.since = s.horizon()
		default:
			s.since = horizon{math.MaxUint64, last, last} // its events are for readers
		}
	}
	if whole || since.set {
		// Without a bound: what is missing would be missing in the next snapshot, for ever.
		if err := rd.between(ctx, found, math.MaxInt); err != nil {
			return nil, err
		}
	}
	for _, s := range found {
		open = append(open, slices.DeleteFunc(s.apart(0), func(s *gathered) bool { return s.ended })...)
	}
	slices.SortFunc(open, func(a, b *gathered) int { return a.start(true).compare(b.start(true)) })
	return open, nil
}

// snapshots notes where spans were recorded whole. Of several such places, and of their
// beginnings, not all may be stored.
func (rd *reader) snapshots(list []active) {
	for _, a := range list {
		if a.snapshot.set {
			rd.ran([]active{{span: a.span, start: a.snapshot.value}})
		}
	}
}
