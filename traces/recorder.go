package traces

import "time"

// A recorder turns what happens to spans into records, and puts these into the chunks that the
// store fills. The running spans are its own. The lock of the store guards it: a span and the place
// of its record change together.
type recorder struct {
	*config
	st     *store
	limits *limiter

	running         *running  // +checklocks:st.mu
	latest          uint64    // Unix ns of the last look at the clock  +checklocks:st.mu
	draft, resDraft draft     // +checklocks:st.mu
	resOf           *Resource // that resDraft is of  +checklocks:st.mu
	adopted         []*Span   // +checklocks:st.mu
}

// newRecorder returns a recorder without spans.
func newRecorder(c *config, st *store) *recorder {
	l := &limiter{boundsOf(c.limit, c.opts.Limits.ValueLength), c.opts.Limits, c.opts.Resource, &st.stats}
	r := &recorder{config: c, st: st, limits: l, running: &st.running, draft: draft{limits: l}, resDraft: draft{limits: l}}
	st.heal = r.heal
	return r
}

// begin starts a span whose parent is around, unless o says otherwise. A nil o is the zero
// StartOptions.
func (r *recorder) begin(around *Span, name string, o *StartOptions) *Span {
	if o == nil {
		o = &StartOptions{}
	}
	s := &Span{r: r, id: o.SpanID, trace: o.TraceID, parent: o.ParentID}
	switch {
	case o.Root:
		s.parent, s.trace = SpanID{}, TraceID{}
	case o.Parent != nil:
		s.inherit(o.Parent)
	case o.TraceID.IsZero() && around != nil:
		s.inherit(around)
	}
	s.identify()
	r.st.mu.Lock()
	defer r.st.unlock()
	r.heal()
	if r.st.usable() != nil {
		r.ignore()
		return s
	}
	r.limits.fill(s, name, o)
	if r.running.n == r.maxActive && r.dropDeepest(s) {
		return s
	}
	r.enter(s, o.Time)
	return s
}

// enter records the beginning of a span at a time, now if that is zero.
//
// +checklocks:r.st.mu
func (r *recorder) enter(s *Span, at time.Time) {
	now := r.now()
	if s.began = now; !at.IsZero() {
		s.began = unixNano(at)
	}
	// A record that begins in a bucket that is over would need a chunk of its own there, and
	// one that is dated ahead would undo what is recorded until then: it becomes a snapshot,
	// which says both when it was made and when the span began.
	kind, when := kindStart, s.began
	if s.began > now || r.st.bucketStart(s.began) != r.st.bucketStart(now) {
		kind, when = kindSnapshot, now
	}
	r.draft.whole(s, kind)
	place, ok := r.put(when, s, addition{1, activeSize})
	if !ok {
		s.state = spanDropped
		return
	}
	s.state, s.start, s.whole = spanActive, place, now
	r.running.link(s)
}

// dropDeepest makes room for one more span: the deepest one is recorded no more, and of
// those the newest. It reports whether that is s itself, which is not recorded at all.
//
// +checklocks:r.st.mu
func (r *recorder) dropDeepest(s *Span) bool {
	// From the newest to the oldest, so that of the same depth the newest is met first; s
	// is the newest of all.
	victim := s
	for o := r.running.newest; o != nil; o = o.older {
		if o.depth > victim.depth {
			victim = o
		}
	}
	r.st.stats.DroppedSpans++
	r.st.count(metricDroppedSpans, 1)
	if victim == s {
		s.state = spanDropped
		return true
	}
	r.running.leave(victim, spanDropped)
	return false
}

// putMore records an update or an event, and the whole span if that was long ago.
//
// +checklocks:r.st.mu
func (r *recorder) putMore(s *Span, at uint64) {
	before := len(r.draft.values)
	if _, ok := r.put(at, s, addition{}); !ok {
		return
	}
	s.bytes += before + 64 // about the size of the record
	// As it is now, whatever it was that has a date: what it wasn't then must not be seen.
	now := r.now()
	if s.bytes >= r.opts.SnapshotBytes || now > s.whole && now-s.whole >= uint64(r.opts.SnapshotInterval) {
		r.restate(s, now)
	}
}

// restate records the span whole.
//
// +checklocks:r.st.mu
func (r *recorder) restate(s *Span, at uint64) {
	r.draft.whole(s, kindSnapshot)
	more := addition{0, placeSize}
	if s.snapshot.set {
		more.bytes = 0
	}
	place, ok := r.put(at, s, more)
	if !ok {
		return
	}
	r.running.bytes += more.bytes
	s.snapshot, s.bytes, s.whole = some(place), 0, at
}

// dateBack records what span it is in a bucket that is over, in which something is to be
// dated back, if its beginning was recorded later: from then on it begins there. What it has
// is there with its end, and not with an event, after which that may have changed.
//
// +checklocks:r.st.mu
func (r *recorder) dateBack(s *Span, at uint64, ends bool) {
	start, home := r.st.bucketStart(at), s.start.bucket.start
	if ends && s.home.set {
		home = s.home.value
	}
	if start >= home {
		return
	}
	more := addition{}
	if ends {
		r.draft.whole(s, kindSnapshot)
	} else {
		r.draft.bare(s, kindSnapshot)
		if !s.snapshot.set {
			more.bytes = placeSize
		}
	}
	place, ok := r.put(at, s, more)
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
	r.running.bytes += more.bytes
}

// putEnd records the end of a span.
//
// +checklocks:r.st.mu
func (r *recorder) putEnd(s *Span, at uint64, status *Status) {
	d := &r.draft
	d.begin(kindEnd)
	d.rec.span = s.id
	if status != nil {
		s.status = some(r.limits.status(status))
		d.setStatus(&s.status.value)
	}
	place, ok := r.put(at, s, addition{})
	if s.ended == 0 {
		s.ended = r.st.seq + 1
	}
	if ok && s.beginsBeside(place) {
		b := r.st.builder(place.bucket) // which is the one that has it
		b.ends = append(b.ends, ending{s, at})
	}
}

// heal records the spans whose beginning was dropped, and ends that were.
//
// +checklocks:r.st.mu
func (r *recorder) heal() {
	if !r.running.lost {
		return
	}
	r.running.lost = false
	at := r.now()
	for s := r.running.oldest; s != nil; s = s.next {
		if s.lost {
			s.lost = false
			r.restate(s, at)
		}
	}
	unended := r.st.unended
	r.st.unended = nil
	for _, e := range unended {
		var status *Status
		if e.span.status.set {
			status = &e.span.status.value
		}
		r.putEnd(e.span, e.at, status)
	}
}

// put puts the draft into the chunk of its time, of which it decides before what it will
// be: with the strings that are new in it, and with the list of the spans that run. So no
// chunk is ever too large. s is the span, nil for a record of none.
//
// +checklocks:r.st.mu
func (r *recorder) put(at uint64, s *Span, more addition) (seat, bool) {
	// What is dated ahead is in the bucket of today: those to come are not there yet.
	if at > r.latest {
		r.latest = max(r.latest, r.now())
	}
	k := r.st.bucketAt(min(at, r.latest))
	refs, refBytes := r.running.n+more.refs, r.running.bytes+more.bytes
	b := r.st.builder(k)
	// A chunk that is cut takes its strings along, so the record is put together anew.
	for !r.try(b, at, s, refs, refBytes) {
		if b.count == 0 {
			r.st.stats.DroppedRecords++ // no bounds allow this
			return seat{}, false
		}
		r.st.cut(b)
		b = r.st.builder(k)
	}
	b.saw(at, s.hashIn(b))
	// The others must list what is added, too.
	for i := len(r.st.open) - 1; i > 0; i-- {
		if o := r.st.open[i]; o.size(refs, refBytes) > r.limit {
			r.st.cut(o)
		}
	}
	return seat{k, b.number, uint32(b.count - 1)}, true
}

// try appends the draft to b, if it fits.
//
// +checklocks:r.st.mu
func (r *recorder) try(b *builder, at uint64, s *Span, refs, refBytes int) bool {
	m, n, count, resource := b.mark(), len(b.records), b.count, b.resource
	limit := r.target
	if count == 0 {
		limit = r.limit // the target may be less than the list of running spans alone
	}
	d := &r.draft
	if s != nil && s.resource != resource && (d.rec.kind == kindStart || d.rec.kind == kindSnapshot) {
		r.stateResource(b, at, s.resource)
	}
	d.finish(b)
	d.rec.offset = at - b.base
	b.records = d.rec.append(b.records)
	b.count++
	if b.size(refs, refBytes) <= limit {
		return true
	}
	b.records, b.count, b.resource = b.records[:n], count, resource
	b.undo(m)
	return false
}

// stateResource says in b what records from here on. The format has no place for it: it is
// an update of the span that no span is, which other readers ignore.
//
// +checklocks:r.st.mu
func (r *recorder) stateResource(b *builder, at uint64, res *Resource) {
	d := &r.resDraft
	if r.resOf != res || len(d.ends) == 0 && res != nil {
		d.begin(kindUpdate)
		r.resOf = res
		if res != nil {
			d.rec.dropped = d.addAttrs(res.Attributes)
			if res.SchemaURL != "" {
				d.rec.dropped += d.addAttrs([]Attr{String(keySchema, res.SchemaURL)})
			}
		}
	}
	d.finish(b)
	d.rec.offset = at - b.base
	b.records = d.rec.append(b.records)
	b.count++
	b.resource = res
}

// An addition is what putting a record adds to the list of spans that run.
type addition struct{ refs, bytes int }

// record records a span that has ended elsewhere, all of it at once: for spans that were
// not started here, or were dropped since. Of one that is stored already it replaces
// everything but the events. A span without ids is given them; one that still runs ends
// now.
func (r *recorder) record(d *SpanData) {
	s := &Span{r: r, id: d.SpanID, trace: d.TraceID, parent: d.Parent, began: unixNano(d.Start)}
	s.identify()
	r.st.mu.Lock()
	defer r.st.unlock()
	r.heal()
	if r.st.usable() != nil {
		r.ignore()
		return
	}
	r.limits.fill(s, d.Name, &StartOptions{
		Kind: d.Kind, TraceState: d.TraceState, Flags: d.Flags, Attributes: d.Attributes, Links: d.Links,
		DroppedAttributes: d.DroppedAttributes, DroppedLinks: d.DroppedLinks, Resource: d.Resource, Scope: d.Scope,
	})
	end := r.now()
	if !d.End.IsZero() {
		end = unixNano(d.End)
	}
	if d.Status != (Status{}) {
		s.status = some(r.limits.status(&d.Status))
	}
	events := d.Events
	if limit := r.opts.Limits.Events; limit >= 0 && len(events) > limit {
		r.st.stats.DroppedEvents += int64(len(events) - limit)
		s.lostEvents, events = len(events)-limit, events[:limit]
	}
	s.lostEvents += int(d.DroppedEvents)
	// If a chunk is cut meanwhile it lists the span as one that runs: the host may die
	// before its end is stored. Without room, an end before the beginning does it.
	more := addition{1, activeSize}
	if r.running.n == r.maxActive {
		r.putEnd(s, end, nil)
		more = addition{}
	}
	// The span at the time of its end, whenever it began: it may be days long.
	r.draft.whole(s, kindSnapshot)
	place, ok := r.put(end, s, more)
	if !ok {
		return
	}
	if s.start = place; more.refs > 0 {
		r.running.link(s)
	}
	for i := range events {
		r.draft.event(s.id, &events[i])
		r.put(unixNano(events[i].Time), s, addition{})
	}
	r.putEnd(s, end, nil)
	if more.refs > 0 {
		r.running.leave(s, spanEnded)
	}
}

// ignore counts a call that does nothing.
//
// +checklocks:r.st.mu
func (r *recorder) ignore() {
	r.st.stats.Ignored++
	r.st.count(metricIgnored, 1)
}
