package traces

import "time"

// TraceID returns the id of the trace.
func (s *Span) TraceID() TraceID {
	if s == nil {
		return TraceID{}
	}
	return s.trace
}

// SpanID returns the id of the span.
func (s *Span) SpanID() SpanID {
	if s == nil {
		return SpanID{}
	}
	return s.id
}

// Active reports whether the span is being recorded: it neither ended nor was
// dropped.
func (s *Span) Active() bool {
	if s == nil {
		return false
	}
	s.t.mu.Lock()
	defer s.t.unlock()
	return s.state == spanActive && s.t.usable() == nil
}

// record calls fn with t.mu held, if the span is being recorded; otherwise that is
// counted. fn gets the time.
func (s *Span) record(at time.Time, fn func(t *Traces, now uint64)) {
	if s == nil {
		return
	}
	t := s.t
	t.mu.Lock()
	defer t.unlock()
	if s.state != spanActive || t.usable() != nil {
		t.ignore()
		return
	}
	now := uint64(0)
	if at.IsZero() {
		now = t.now()
	} else {
		now = unixNano(at)
	}
	if s.lost { // what is dated back must not stand before what it comes after
		s.lost = false
		t.restate(s, min(now, t.now()))
	}
	t.heal()
	fn(t, now)
}

// SetAttributes sets attributes, replacing those that have the same keys.
func (s *Span) SetAttributes(attrs ...Attr) { s.update(attrs, 0, nil) }

// SetStatus sets the status.
func (s *Span) SetStatus(code StatusCode, message string) {
	s.update(nil, 0, &Status{code, message})
}

// update is SetAttributes and SetStatus in one record; a nil status leaves it as it is.
// dropped are attributes that are not given here; nothing at all records nothing.
func (s *Span) update(attrs []Attr, dropped uint32, status *Status) {
	if len(attrs) == 0 && dropped == 0 && status == nil {
		return
	}
	s.record(time.Time{}, func(t *Traces, at uint64) {
		kept, over := t.merge(s, attrs)
		dropped = addCounts(dropped, over)
		d := &t.draft
		d.begin(kindUpdate, &t.bounds)
		d.rec.span = s.id
		if status != nil {
			s.status = some(Status{min(status.Code, StatusError), t.text(status.Message, t.bounds.message)})
			d.setStatus(&s.status.value)
		}
		d.rec.dropped = addCounts(dropped, t.addAttrs(d, kept))
		s.dropped = addCounts(s.dropped, d.rec.dropped)
		t.putMore(s, at)
	})
}

// putMore records an update or an event, and the whole span if that was long ago.
//
// +checklocks:t.mu
func (t *Traces) putMore(s *Span, at uint64) {
	before := len(t.draft.values)
	if _, ok := t.put(at, s, addition{}); !ok {
		return
	}
	s.bytes += before + 64 // about the size of the record
	// As it is now, whatever it was that has a date: what it wasn't then must not be seen.
	now := t.now()
	if s.bytes >= t.opts.SnapshotBytes || now > s.whole && now-s.whole >= uint64(t.opts.SnapshotInterval) {
		t.restate(s, now)
	}
}

// restate records the span whole.
//
// +checklocks:t.mu
func (t *Traces) restate(s *Span, at uint64) {
	t.draftWhole(s, kindSnapshot)
	more := addition{0, placeSize}
	if s.snapshot.set {
		more.bytes = 0
	}
	place, ok := t.put(at, s, more)
	if !ok {
		return
	}
	t.refBytes += more.bytes
	s.snapshot, s.bytes, s.whole = some(place), 0, at
}

// Event records that something happened now.
func (s *Span) Event(name string, attrs ...Attr) { s.AddEvent(Event{Name: name, Attributes: attrs}) }

// AddEvent records that something happened at e.Time, or now if that is zero.
func (s *Span) AddEvent(e Event) {
	s.record(e.Time, func(t *Traces, at uint64) {
		if over(s.events, t.opts.Limits.Events) {
			s.lostEvents++
			t.stats.DroppedEvents++
			return
		}
		s.events++
		t.dateBack(s, at, false)
		t.draftEvent(s.id, &e)
		t.putMore(s, at)
	})
}

// dateBack records what span it is in a bucket that is over, in which something is to be
// dated back, if its beginning was recorded later: from then on it begins there. What it has
// is there with its end, and not with an event, after which that may have changed.
//
// +checklocks:t.mu
func (t *Traces) dateBack(s *Span, at uint64, ends bool) {
	start, home := t.bucketStart(at), s.start.bucket.start
	if ends && s.home.set {
		home = s.home.value
	}
	if start >= home {
		return
	}
	more := addition{}
	if ends {
		t.draftWhole(s, kindSnapshot)
	} else {
		t.draftBare(s, kindSnapshot)
		if !s.snapshot.set {
			more.bytes = placeSize
		}
	}
	place, ok := t.put(at, s, more)
	if !ok || ends {
		return
	}
	if !s.home.set {
		s.home = some(home)
	}
	if !s.snapshot.set {
		s.snapshot = some(s.start)
	}
	s.start = place
	t.refBytes += more.bytes
}

// draftEvent drafts an event of a span.
//
// +checklocks:t.mu
func (t *Traces) draftEvent(id SpanID, e *Event) {
	d := &t.draft
	d.begin(kindEvent, &t.bounds)
	d.rec.span = id
	d.setName(t.text(e.Name, t.bounds.name))
	dropped := e.DroppedAttributes
	attrs := t.first(e.Attributes, t.opts.Limits.EventAttributes, &dropped)
	d.rec.dropped = addCounts(dropped, t.addAttrs(d, attrs))
}

// Restate records the span whole again, with another name, kind or links, which the
// other methods can't change. Of d it takes those, the attributes, the dropped counts
// and the status; everything else stays.
func (s *Span) Restate(d *SpanData) {
	s.record(time.Time{}, func(t *Traces, at uint64) {
		s.name, s.kind = t.text(d.Name, t.bounds.name), d.Kind
		s.attrs, s.ownAttrs, s.dropped = nil, 0, d.DroppedAttributes
		_, more := t.merge(s, d.Attributes)
		s.dropped = addCounts(s.dropped, more)
		s.droppedLinks = d.DroppedLinks
		t.setLinks(s, d.Links)
		s.lostEvents = max(s.lostEvents, int(d.DroppedEvents))
		s.status = optional[Status]{}
		if d.Status != (Status{}) {
			s.status = some(Status{min(d.Status.Code, StatusError), t.text(d.Status.Message, t.bounds.message)})
		}
		t.restate(s, at)
	})
}

// End ends the span now.
func (s *Span) End() { s.EndWith(time.Time{}, nil) }

// EndWith ends the span at a time, now if that is zero, with a status, unless that is nil.
func (s *Span) EndWith(at time.Time, status *Status) {
	s.record(at, func(t *Traces, at uint64) {
		t.dateBack(s, at, true)
		if s.lostEvents > 0 { // the format has no other place for it
			d := &t.draft
			d.begin(kindUpdate, &t.bounds)
			d.rec.span = s.id
			a := Int(keyDroppedEvents, int64(s.lostEvents))
			t.addAttr(d, &a)
			t.put(at, s, addition{})
		}
		t.putEnd(s, at, status)
		t.leave(s, spanEnded)
	})
}

// putEnd records the end of a span.
//
// +checklocks:t.mu
func (t *Traces) putEnd(s *Span, at uint64, status *Status) {
	d := &t.draft
	d.begin(kindEnd, &t.bounds)
	d.rec.span = s.id
	if status != nil {
		s.status = some(Status{min(status.Code, StatusError), t.text(status.Message, t.bounds.message)})
		d.setStatus(&s.status.value)
	}
	place, ok := t.put(at, s, addition{})
	if s.ended == 0 {
		s.ended = t.seq + 1
	}
	if ok && s.beginsBeside(place) {
		b := t.builder(place.bucket) // which is the one that has it
		b.ends = append(b.ends, ending{s, at})
	}
}

// beginsBeside reports whether another chunk than that of a record says what span it is.
func (s *Span) beginsBeside(end seat) bool {
	other := func(s seat) bool { return s.bucket != end.bucket || s.number != end.number }
	return s.start.bucket != nil && (other(s.start) || s.snapshot.set && other(s.snapshot.value))
}

// Record records a span that has ended elsewhere, all of it at once: for spans that were
// not started here, or were dropped since. Of one that is stored already it replaces
// everything but the events. A span without ids is given them; one that still runs ends
// now.
func (t *Traces) Record(d *SpanData) {
	s := &Span{t: t, id: d.SpanID, trace: d.TraceID, parent: d.Parent, began: unixNano(d.Start)}
	s.identify()
	t.mu.Lock()
	defer t.unlock()
	t.heal()
	if t.usable() != nil {
		t.ignore()
		return
	}
	t.fill(s, d.Name, &StartOptions{
		Kind: d.Kind, TraceState: d.TraceState, Flags: d.Flags, Attributes: d.Attributes, Links: d.Links,
		DroppedAttributes: d.DroppedAttributes, DroppedLinks: d.DroppedLinks, Resource: d.Resource, Scope: d.Scope,
	})
	end := t.now()
	if !d.End.IsZero() {
		end = unixNano(d.End)
	}
	if d.Status != (Status{}) {
		s.status = some(Status{min(d.Status.Code, StatusError), t.text(d.Status.Message, t.bounds.message)})
	}
	t.recordWhole(s, d, end)
}

// recordWhole records a span that ended at end and its events.
//
// +checklocks:t.mu
func (t *Traces) recordWhole(s *Span, d *SpanData, end uint64) {
	events := d.Events
	if limit := t.opts.Limits.Events; limit >= 0 && len(events) > limit {
		t.stats.DroppedEvents += int64(len(events) - limit)
		s.lostEvents, events = len(events)-limit, events[:limit]
	}
	s.lostEvents += int(d.DroppedEvents)
	// If a chunk is cut meanwhile it lists the span as one that runs: the host may die
	// before its end is stored. Without room, an end before the beginning does it.
	more := addition{1, activeSize}
	if t.active == t.maxActive {
		t.putEnd(s, end, nil)
		more = addition{}
	}
	// The span at the time of its end, whenever it began: it may be days long.
	t.draftWhole(s, kindSnapshot)
	place, ok := t.put(end, s, more)
	if !ok {
		return
	}
	if s.start = place; more.refs > 0 {
		t.link(s)
	}
	for i := range events {
		t.draftEvent(s.id, &events[i])
		t.put(unixNano(events[i].Time), s, addition{})
	}
	t.putEnd(s, end, nil)
	if more.refs > 0 {
		t.leave(s, spanEnded)
	}
}
