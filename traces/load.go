package traces

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
)

// crashMessage is the status of spans that were left open and don't go on.
const crashMessage = "actor terminated"

// load reads what recording has to know of what is stored, and sees to the spans that were
// left open.
func (t *Traces) load(ctx context.Context) (err error) {
	snap, err := t.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	s, err := newScanner(ctx, snap, nil)
	if err != nil {
		return err
	}
	for _, err := range s.cat.bad {
		t.log.Warn("traces: a note of the index can't be read", "actor", t.actor.ID(), "err", err)
	}
	t.index.buckets = map[int64]bucketNotes{}
	t.index.notes = s.cat.notes
	for start, l := range s.cat.ledgers {
		t.index.buckets[start] = bucketNotes{ledger: l, stored: true}
		t.index.bytes += l.bytes
		t.seq = max(t.seq, l.seq)
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.damaged {
		t.log.Warn("traces: the newest chunk can't be read", "actor", t.actor.ID(), "chunk", d.Words, "err", d.Err)
	}
	t.tip = numbered{newest.key, t.seq}
	t.listed = t.tip
	since := s.cat.ledgers[newest.key.bucket].since
	for i := 0; newest.chunk == nil && i < maxBack; i++ {
		k, err := s.keyBefore(ctx, newest.key)
		if err != nil {
			return err
		}
		if !k.set {
			break
		}
		// What the damaged one says has to be found out.
		newest.key, since = k.value, some(numbered{k.value, 0})
		if newest.chunk, err = s.chunk(ctx, k.value); err != nil {
			return err
		}
	}
	if newest.chunk != nil {
		if since.set {
			t.listed = since.value
		}
		if err := t.resume(ctx, s, newest, since); err != nil {
			return err
		}
	}
	t.setTrim(s.cat, newest.chunk != nil)
	return nil
}

// newest returns the chunk that was cut last, which says what spans ran; nil without one,
// and if it is damaged.
func (s *scanner) newest(ctx context.Context) (k keyed, err error) {
	var tip optional[chunkKey]
	seq := uint64(0)
	for start, l := range s.cat.ledgers {
		if l.chunks > 0 && l.seq >= seq {
			tip, seq = some(chunkKey{start, l.last}), l.seq
		}
	}
	start, end := chunksRange(s.cat.layout)
	last, err := lastKey(ctx, s.snap, start, end)
	if err != nil || !last.set {
		return keyed{}, err
	}
	// The last key isn't always of the chunk that was cut last: what is dated back is in
	// an earlier bucket. But what other programs wrote, the ledgers don't know.
	if l, ok := s.cat.ledgers[last.value.bucket]; !tip.set || !ok || last.value.id >= l.next {
		tip = last
	}
	c, err := s.chunk(ctx, tip.value)
	return keyed{tip.value, c}, err
}

// resume ends the spans that ran when the host died, or makes them go on.
func (t *Traces) resume(ctx context.Context, s *scanner, newest keyed, since optional[numbered]) error {
	found, err := t.leftOpen(ctx, s, newest, since)
	if err != nil || len(found) == 0 {
		return err
	}
	// When the host died isn't known. The last sign of life is nearer to it than now:
	// a span that seems to run through all the time that the actor was asleep is of no use.
	seen := uint64(0)
	for i := range newest.records {
		seen = max(seen, newest.base+newest.records[i].offset)
	}
	t.mu.Lock()
	defer t.unlock()
	seen = min(seen, t.now())
	for _, s := range found {
		switch {
		case !t.opts.Adopt:
			t.terminate(s, seen)
		case t.active == t.maxActive:
			t.stats.DroppedSpans++
			t.count(metricDroppedSpans, 1)
			t.terminate(s, seen)
		default:
			t.adopt(s)
		}
	}
	return nil
}

// leftOpen returns the spans that are stored and have no end, oldest first: those that ran
// when the newest chunk was cut. If ends that were recorded until then were not stored by
// then, and the chunk lists nothing of their spans, since says from what chunk on to look
// for others.
func (t *Traces) leftOpen(ctx context.Context, s *scanner, newest keyed, since optional[numbered]) (open []*gathered, err error) {
	g := &gatherer{
		scanner: s, from: math.MaxUint64, to: math.MaxUint64, spans: map[SpanID]*gathered{}, resources: resources{},
		actives: map[SpanID][]active{},
	}
	g.ran(newest.active)
	if since.set {
		err := g.scan(ctx, s.cat.since(since.value), func(c keyed) error {
			g.runners(c)
			g.snapshots(c.active)
			return nil
		})
		if err != nil {
			return nil, err
		}
		g.snapshots(newest.active)
	}
	var found []*gathered
	for id := range g.actives {
		found = append(found, &gathered{id: id})
	}
	if err := g.bases(ctx, found); err != nil {
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
	if t.opts.Adopt || since.set {
		// Without a bound: what is missing would be missing in the next snapshot, for ever.
		if err := g.between(ctx, found, math.MaxInt); err != nil {
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
func (g *gatherer) snapshots(list []active) {
	for _, a := range list {
		if a.snapshot.set {
			g.ran([]active{{span: a.span, start: a.snapshot.value}})
		}
	}
}

// start returns where the first record is, or the first one with which the span began.
func (s *gathered) start(base bool) place {
	first := place{chunk: chunkKey{math.MaxInt64, 0}}
	for i := range s.records {
		if r := &s.records[i]; (r.base() || !base) && r.place.compare(first) < 0 {
			first = r.place
		}
	}
	return first
}

// newest returns where the last record is that says what the span is.
func (s *gathered) newest() (last place) {
	for i := range s.records {
		if r := &s.records[i]; r.base() && r.place.compare(last) >= 0 {
			last = r.place
		}
	}
	return last
}

// terminate ends a span that was left open.
//
// +checklocks:t.mu
func (t *Traces) terminate(g *gathered, seen uint64) {
	d := g.span()
	s := &Span{t: t, trace: d.TraceID, id: g.id, hash: g.traces[0], start: stored(g.start(true))}
	t.putEnd(s, max(seen, unixNano(d.Start)), &Status{StatusError, crashMessage})
	t.later(func() {
		t.log.Info("traces: span ended that was left open", "actor", t.actor.ID(), "span", d.Name, "trace", d.TraceID)
	})
}

// adopt makes a span go on.
//
// +checklocks:t.mu
func (t *Traces) adopt(g *gathered) {
	d := g.span()
	s := &Span{
		t: t, trace: d.TraceID, id: d.SpanID, parent: d.Parent, hash: g.traces[0], state: spanActive,
		name: d.Name, kind: d.Kind, began: unixNano(d.Start), traceState: d.TraceState, flags: d.Flags,
		attrs: d.Attributes, ownAttrs: len(d.Attributes), dropped: d.DroppedAttributes,
		links: d.Links, droppedLinks: d.DroppedLinks, events: len(d.Events), lostEvents: int(d.DroppedEvents),
		resource: d.Resource, whole: t.now(), start: stored(g.start(true)),
	}
	if d.Status != (Status{}) {
		s.status = some(d.Status)
	}
	if !d.Scope.IsZero() {
		s.scope = &d.Scope
	}
	if !d.Parent.IsZero() {
		s.depth = 1 // or more: its parents can't be known
	}
	if last := g.newest(); last != g.start(true) {
		s.snapshot = some(stored(last))
	}
	t.link(s)
	t.adopted = append(t.adopted, s)
}

// stored returns the seat of a record that is stored.
func stored(p place) seat {
	return seat{&bucket{start: p.chunk.bucket, resolved: true}, p.chunk.id, p.index}
}

// Check reports what is wrong with the traces that s shows, beside the chunks that are
// damaged, which Read reports: an index that promises what isn't there, or can't be read.
// It reads every chunk. An error is that of reading.
func Check(ctx context.Context, s *actorstore.Snapshot) (findings []string, err error) {
	sc, err := newScanner(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	return sc.check(ctx)
}
