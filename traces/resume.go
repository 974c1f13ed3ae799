package traces

import (
	"context"
	"errors"
)

// crashMessage is the status of spans that were left open and don't go on.
const crashMessage = "actor terminated"

// load reads what recording has to know of what is stored, and sees to the spans that were
// left open.
func (r *recorder) load(ctx context.Context) (err error) {
	snap, err := r.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	s, err := newScanner(ctx, snap, nil)
	if err != nil {
		return err
	}
	for _, err := range s.cat.bad {
		r.log.Warn("traces: a note of the index can't be read", "actor_id", r.actor.ID(), "err", err)
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.damaged {
		r.log.Warn("traces: the newest chunk can't be read", "actor_id", r.actor.ID(), "chunk", d.Words, "err", d.Err)
	}
	tip := newest.key
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
	r.st.load(s.cat, tip, since, newest.chunk != nil)
	if newest.chunk == nil {
		return nil
	}
	return r.resume(ctx, s, newest, since)
}

// resume ends the spans that ran when the host died, or makes them go on.
func (r *recorder) resume(ctx context.Context, s *scanner, newest keyed, since optional[numbered]) error {
	found, err := newLookback(s).leftOpen(ctx, newest, since, r.opts.Adopt)
	if err != nil || len(found) == 0 {
		return err
	}
	// When the host died isn't known. The last sign of life is nearer to it than now:
	// a span that seems to run through all the time that the actor was asleep is of no use.
	seen := uint64(0)
	for i := range newest.records {
		seen = max(seen, newest.base+newest.records[i].offset)
	}
	r.st.mu.Lock()
	defer r.st.unlock()
	seen = min(seen, r.now())
	for _, s := range found {
		switch {
		case !r.opts.Adopt:
			r.terminate(s, seen)
		case r.running.n == r.maxActive:
			r.st.stats.DroppedSpans++
			r.st.count(metricDroppedSpans, 1)
			r.terminate(s, seen)
		default:
			r.adopt(s)
		}
	}
	return nil
}

// terminate ends a span that was left open.
//
// +checklocks:r.st.mu
func (r *recorder) terminate(g *gathered, seen uint64) {
	d := g.span()
	s := &Span{r: r, trace: d.TraceID, id: g.id, hash: g.traces[0], start: stored(g.start(true))}
	r.putEnd(s, max(seen, unixNano(d.Start)), &Status{StatusError, crashMessage})
	r.st.later(func() {
		r.log.Info("traces: span ended that was left open", "actor_id", r.actor.ID(), "span", d.Name, "trace", d.TraceID)
	})
}

// adopt makes a span go on.
//
// +checklocks:r.st.mu
func (r *recorder) adopt(g *gathered) {
	d := g.span()
	s := &Span{
		r: r, trace: d.TraceID, id: d.SpanID, parent: d.Parent, hash: g.traces[0], state: spanActive,
		name: d.Name, kind: d.Kind, began: unixNano(d.Start), traceState: d.TraceState, flags: d.Flags,
		attrs: d.Attributes, ownAttrs: len(d.Attributes), dropped: d.DroppedAttributes,
		links: d.Links, droppedLinks: d.DroppedLinks, events: len(d.Events), lostEvents: int(d.DroppedEvents),
		resource: d.Resource, whole: r.now(), start: stored(g.start(true)),
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
	r.running.link(s)
	r.adopted = append(r.adopted, s)
}

// stored returns the seat of a record that is stored.
func stored(p place) seat {
	return seat{&bucket{start: p.chunk.bucket, resolved: true}, p.chunk.id, p.index}
}
