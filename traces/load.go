package traces

import (
	"context"
	"errors"
	"math"

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
	if newest.chunk != nil {
		if err := t.resume(ctx, s, newest); err != nil {
			return err
		}
	}
	t.setTrim(s.cat, newest.chunk != nil)
	return nil
}

// newest returns the chunk that was cut last, which says what spans ran; nil if there is
// none, or it is damaged.
func (s *scanner) newest(ctx context.Context) (k keyed, err error) {
	var tip optional[chunkKey]
	seq := uint64(0)
	for start, l := range s.cat.ledgers {
		if l.chunks > 0 && l.seq >= seq {
			tip, seq = some(chunkKey{start, l.last}), l.seq
		}
	}
	start, end := chunksRange()
	last, err := lastKey(ctx, s.snap, start, end)
	if err != nil || !last.set {
		return keyed{}, err
	}
	// The last key isn't always of the chunk that was cut last: what is dated back is in
	// an earlier bucket. But what somebody else has written, the ledgers don't know.
	if l, ok := s.cat.ledgers[last.value.bucket]; !tip.set || !ok || last.value.id >= l.next {
		tip = last
	}
	c, err := s.chunk(ctx, tip.value)
	return keyed{tip.value, c}, err
}

// resume ends the spans that ran when the newest chunk was cut, or makes them go on.
func (t *Traces) resume(ctx context.Context, s *scanner, newest keyed) error {
	g := &gatherer{scanner: s, to: math.MaxUint64, spans: map[SpanID]*gathered{}, resources: resources{}}
	g.actives = map[SpanID]active{}
	var missing []*gathered
	for i, a := range newest.active {
		g.actives[a.span] = a
		missing = append(missing, &gathered{id: a.span, order: i})
	}
	found, err := g.bases(ctx, missing)
	if err != nil || len(found) == 0 {
		return err
	}
	// When the host died nobody knows. The last sign of life is nearer to it than now:
	// a span that seems to run through all the time that the actor was asleep is no use.
	seen := uint64(0)
	for i := range newest.records {
		seen = max(seen, newest.base+newest.records[i].offset)
	}
	if t.opts.Adopt {
		next := newest.key
		next.id++
		g.first = &next
		for _, s := range found {
			if s.whole != (place{}) {
				s.since = s.whole.chunk // its events are for readers
			}
		}
		// Without a bound: what is missing would be missing in the next snapshot, for ever.
		if err := g.between(ctx, found, math.MaxInt); err != nil {
			return err
		}
		return t.adopt(found)
	}
	t.mu.Lock()
	defer t.unlock()
	seen = min(seen, t.now())
	for _, s := range found {
		span := &Span{t: t, id: s.id, hash: s.trace}
		d := s.span()
		t.putEnd(span, max(seen, unixNano(d.Start)), &Status{StatusError, crashMessage})
		t.later(func() {
			t.log.Info("traces: span ended that was left open", "actor", t.actor.ID(), "span", d.Name, "trace", d.TraceID)
		})
	}
	return nil
}

// adopt makes spans go on.
func (t *Traces) adopt(found []*gathered) error {
	t.mu.Lock()
	defer t.unlock()
	for _, g := range found {
		if g.ended {
			continue
		}
		if t.active == t.maxActive {
			t.stats.DroppedSpans++
			continue
		}
		d := g.span()
		s := &Span{
			t: t, trace: d.TraceID, id: d.SpanID, parent: d.Parent, hash: g.trace, state: spanActive,
			name: d.Name, kind: d.Kind, began: unixNano(d.Start), traceState: d.TraceState, flags: d.Flags,
			attrs: d.Attributes, ownAttrs: len(d.Attributes), dropped: d.DroppedAttributes,
			links: d.Links, droppedLinks: d.DroppedLinks, events: len(d.Events), lostEvents: int(d.DroppedEvents),
			resource: d.Resource, whole: t.now(), start: stored(g.begins),
		}
		if d.Status != (Status{}) {
			s.status = some(d.Status)
		}
		if !d.Scope.IsZero() {
			s.scope = &d.Scope
		}
		if !d.Parent.IsZero() {
			s.depth = 1 // or more: its parents are for nobody to know
		}
		if g.whole != (place{}) {
			s.snapshot = some(stored(g.whole))
		}
		t.link(s)
		t.adopted = append(t.adopted, s)
	}
	return nil
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
