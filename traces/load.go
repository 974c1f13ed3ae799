package traces

import (
	"context"
	"errors"

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

// resume ends the spans that ran when the host died, or makes them go on.
func (t *Traces) resume(ctx context.Context, s *scanner, newest keyed, since optional[numbered]) error {
	found, err := newLookback(s).leftOpen(ctx, newest, since, t.opts.Adopt)
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
