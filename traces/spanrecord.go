package traces

import "time"

// Active reports whether the span is being recorded: it neither ended nor was
// dropped.
func (s *Span) Active() bool {
	if s == nil {
		return false
	}
	s.r.st.mu.Lock()
	defer s.r.st.unlock()
	return s.state == spanActive && s.r.st.usable() == nil
}

// record calls fn with the lock held, if the span is being recorded; otherwise that is
// counted. fn gets the time.
func (s *Span) record(at time.Time, fn func(r *recorder, now uint64)) {
	if s == nil {
		return
	}
	r := s.r
	r.st.mu.Lock()
	defer r.st.unlock()
	if s.state != spanActive || r.st.usable() != nil {
		r.ignore()
		return
	}
	now := uint64(0)
	if at.IsZero() {
		now = r.now()
	} else {
		now = unixNano(at)
	}
	if s.lost { // what is dated back must not stand before what it comes after
		s.lost = false
		r.restate(s, min(now, r.now()))
	}
	r.heal()
	fn(r, now)
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
	s.record(time.Time{}, func(r *recorder, at uint64) {
		kept, over := r.limits.merge(s, attrs)
		dropped = addCounts(dropped, over)
		d := &r.draft
		d.begin(kindUpdate)
		d.rec.span = s.id
		if status != nil {
			s.status = some(r.limits.status(status))
			d.setStatus(&s.status.value)
		}
		d.rec.dropped = addCounts(dropped, d.addAttrs(kept))
		s.dropped = addCounts(s.dropped, d.rec.dropped)
		r.putMore(s, at)
	})
}

// Event records that something happened now.
func (s *Span) Event(name string, attrs ...Attr) { s.AddEvent(Event{Name: name, Attributes: attrs}) }

// AddEvent records that something happened at e.Time, or now if that is zero.
func (s *Span) AddEvent(e Event) {
	s.record(e.Time, func(r *recorder, at uint64) {
		if over(s.events, r.opts.Limits.Events) {
			s.lostEvents++
			r.st.stats.DroppedEvents++
			return
		}
		s.events++
		r.dateBack(s, at, false)
		r.draft.event(s.id, &e)
		r.putMore(s, at)
	})
}

// Restate records the span whole again, with another name, kind or links, which the
// other methods can't change. Of d it takes those, the attributes, the dropped counts
// and the status; everything else stays.
func (s *Span) Restate(d *SpanData) {
	s.record(time.Time{}, func(r *recorder, at uint64) {
		s.name, s.kind = r.limits.text(d.Name, r.limits.bounds.name), d.Kind
		s.attrs, s.ownAttrs, s.dropped = nil, 0, d.DroppedAttributes
		_, more := r.limits.merge(s, d.Attributes)
		s.dropped = addCounts(s.dropped, more)
		s.droppedLinks = d.DroppedLinks
		r.limits.setLinks(s, d.Links)
		s.lostEvents = max(s.lostEvents, int(d.DroppedEvents))
		s.status = optional[Status]{}
		if d.Status != (Status{}) {
			s.status = some(r.limits.status(&d.Status))
		}
		r.restate(s, at)
	})
}

// End ends the span now.
func (s *Span) End() { s.EndWith(time.Time{}, nil) }

// EndWith ends the span at a time, now if that is zero, with a status, unless that is nil.
func (s *Span) EndWith(at time.Time, status *Status) {
	s.record(at, func(r *recorder, at uint64) {
		r.dateBack(s, at, true)
		if s.lostEvents > 0 { // the format has no other place for it
			d := &r.draft
			d.begin(kindUpdate)
			d.rec.span = s.id
			a := Int(keyDroppedEvents, int64(s.lostEvents))
			d.addAttr(&a)
			r.put(at, s, addition{})
		}
		r.putEnd(s, at, status)
		r.running.leave(s, spanEnded)
	})
}
