package traces

import (
	"context"
	"time"
)

// StartOptions say what a span begins with. The slices must not change afterwards.
type StartOptions struct {
	// Parent is the span that this one belongs to: it is in the same trace. nil means that
	// of the context, if the span is started with one, else what TraceID and ParentID say.
	Parent *Span
	// Root makes a span without a parent, whatever the context says.
	Root bool
	// TraceID and ParentID are a parent elsewhere; if TraceID is zero, it is a new trace.
	TraceID  TraceID
	ParentID SpanID
	// SpanID is the id of the span; zero means a new one.
	SpanID SpanID

	Kind       SpanKind
	Time       time.Time // when it started; zero means now
	TraceState string
	Flags      uint32
	Attributes []Attr
	Links      []Link
	// DroppedAttributes and DroppedLinks are how many there were that are not given here.
	DroppedAttributes, DroppedLinks uint32
	// Resource and Scope say what records; nil means Options.Resource, a zero Scope says nothing.
	Resource *Resource
	Scope    Scope
}

// A Span is a span that is being recorded. It is safe for concurrent use. Once it has
// ended, or was dropped, its methods do nothing, which is counted. All methods of a nil
// *Span do nothing.
type Span struct {
	t      *Traces
	trace  TraceID
	id     SpanID
	parent SpanID
	hash   uint64 // of trace

	// Guarded by t.mu.
	state        spanState
	depth        int
	name         string
	kind         SpanKind
	began        uint64 // Unix ns
	traceState   string
	flags        uint32
	attrs        []Attr
	dropped      uint32
	links        []Link
	droppedLinks uint32
	status       optional[Status]
	resource     *Resource
	scope        *Scope // nil: zero
	events, lostEvents,
	ownAttrs int // attributes that count against the limit

	start       seat // of the record with which it begins
	snapshot    optional[seat]
	bytes       int             // recorded since it was recorded whole
	whole       uint64          // when that was, Unix ns
	home        optional[int64] // bucket in which it was begun, if start was moved to before it
	lost        bool            // the chunk with its beginning was dropped
	seen        uint64          // serial of the chunk that has its trace
	ended       uint64          // seq of the first chunk that was cut after its end
	older, next *Span
}

type spanState uint8

const (
	spanEnded spanState = iota
	spanActive
	spanDropped
)

type contextKey struct{}

// FromContext returns the span that ctx has, nil if it has none.
func FromContext(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}

// NewContext returns a context that has the span.
func NewContext(ctx context.Context, s *Span) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// Start starts a span, and returns it with a context that has it: spans started with that
// context are its children. nil opts are the zero StartOptions. It never fails: what is
// recorded of a span that can't be is ignored, and counted.
func (t *Traces) Start(ctx context.Context, name string, opts *StartOptions) (context.Context, *Span) {
	if opts == nil {
		opts = &StartOptions{}
	}
	s := t.begin(FromContext(ctx), name, opts)
	return NewContext(ctx, s), s
}

// Begin is Start without a context.
func (t *Traces) Begin(name string, opts *StartOptions) *Span {
	if opts == nil {
		opts = &StartOptions{}
	}
	return t.begin(nil, name, opts)
}

// begin starts a span whose parent is around, unless o says otherwise.
func (t *Traces) begin(around *Span, name string, o *StartOptions) *Span {
	s := &Span{t: t, id: o.SpanID, trace: o.TraceID, parent: o.ParentID}
	switch {
	case o.Root:
		s.parent, s.trace = SpanID{}, TraceID{}
	case o.Parent != nil:
		s.inherit(o.Parent)
	case o.TraceID.IsZero() && around != nil:
		s.inherit(around)
	}
	s.identify()
	t.mu.Lock()
	defer t.unlock()
	t.heal()
	if t.usable() != nil {
		t.ignore()
		return s
	}
	t.fill(s, name, o)
	if t.active == t.maxActive && t.dropDeepest(s) {
		return s
	}
	t.enter(s, o.Time)
	return s
}

// inherit makes s a child of p, whose trace and depth never change.
func (s *Span) inherit(p *Span) { s.trace, s.parent, s.depth = p.trace, p.id, p.depth+1 }

// fill takes over what the span begins with.
//
// +checklocks:t.mu
func (t *Traces) fill(s *Span, name string, o *StartOptions) {
	s.name, s.kind = t.text(name, t.bounds.name), o.Kind
	s.flags, s.resource = o.Flags, o.Resource
	if len(o.TraceState) <= t.bounds.state {
		s.traceState = t.text(o.TraceState, 0)
	}
	if s.resource == nil {
		s.resource = t.opts.Resource
	}
	if !o.Scope.IsZero() {
		scope := o.Scope
		s.scope = &scope
	}
	s.dropped, s.droppedLinks = o.DroppedAttributes, o.DroppedLinks
	s.attrs = make([]Attr, 0, len(o.Attributes))
	_, more := t.merge(s, o.Attributes)
	s.dropped = addCounts(s.dropped, more)
	t.setLinks(s, o.Links)
}

// identify gives the span the ids that it doesn't have.
func (s *Span) identify() {
	if s.trace.IsZero() {
		s.trace = newTraceID()
	}
	if s.id.IsZero() {
		s.id = newSpanID()
	}
	s.hash = hashTrace(s.trace)
}

// merge sets attributes of the span as far as the limit allows. It returns those that it
// set, and how many it did not.
//
// +checklocks:t.mu
func (t *Traces) merge(s *Span, attrs []Attr) (kept []Attr, dropped uint32) {
	kept = attrs
	for i := range attrs {
		switch ok := t.mergeOne(s, &attrs[i]); {
		case !ok && dropped == 0:
			kept = append(make([]Attr, 0, len(attrs)), attrs[:i]...)
			fallthrough
		case !ok:
			dropped++
		case dropped > 0:
			kept = append(kept, attrs[i])
		}
	}
	return kept, dropped
}

// mergeOne reports whether the limit allows the attribute.
//
// +checklocks:t.mu
func (t *Traces) mergeOne(s *Span, a *Attr) bool {
	for i := range s.attrs {
		if s.attrs[i].Key == a.Key {
			s.attrs[i].Value = a.Value
			return true
		}
	}
	if !reservedKey(a.Key) {
		if over(s.ownAttrs, t.opts.Limits.Attributes) {
			t.stats.DroppedAttributes++
			return false
		}
		s.ownAttrs++
	}
	s.attrs = append(s.attrs, *a)
	return true
}

// over reports whether one more than n is over a limit, of which a negative one doesn't count.
func over(n, limit int) bool { return limit >= 0 && n >= limit }

// setLinks sets the links of the span as far as the limits allow.
//
// +checklocks:t.mu
func (t *Traces) setLinks(s *Span, links []Link) {
	s.links = nil
	for i := range links {
		if over(len(s.links), t.opts.Limits.Links) {
			n := len(links) - i
			t.stats.DroppedLinks += int64(n)
			s.droppedLinks = addCounts(s.droppedLinks, uint32(n))
			return
		}
		l := links[i]
		if l.TraceState = t.text(l.TraceState, 0); len(l.TraceState) > t.bounds.state {
			l.TraceState = ""
		}
		l.Attributes = t.first(l.Attributes, t.opts.Limits.LinkAttributes, &l.DroppedAttributes)
		s.links = append(s.links, l)
	}
}

// first returns as many attributes as limit allows, and counts the others.
func (t *Traces) first(attrs []Attr, limit int, dropped *uint32) []Attr {
	if limit < 0 || len(attrs) <= limit {
		return attrs
	}
	n := len(attrs) - limit
	t.stats.DroppedAttributes += int64(n)
	*dropped = addCounts(*dropped, uint32(n))
	return attrs[:limit]
}

// dropDeepest makes room for one more span: the deepest one is recorded no more, and of
// those the newest. It reports whether that is s itself, which is not recorded at all.
//
// +checklocks:t.mu
func (t *Traces) dropDeepest(s *Span) bool {
	// From the newest to the oldest, so that of the same depth the newest is met first; s
	// is the newest of all.
	victim := s
	for o := t.newest; o != nil; o = o.older {
		if o.depth > victim.depth {
			victim = o
		}
	}
	t.stats.DroppedSpans++
	t.count(metricDroppedSpans, 1)
	if victim == s {
		s.state = spanDropped
		return true
	}
	t.leave(victim, spanDropped)
	return false
}

// enter records the beginning of a span at a time, now if that is zero.
//
// +checklocks:t.mu
func (t *Traces) enter(s *Span, at time.Time) {
	now := t.now()
	if s.began = now; !at.IsZero() {
		s.began = unixNano(at)
	}
	// A record that begins in a bucket that is over would need a chunk of its own there, and
	// one that is dated ahead would undo what is recorded until then: it becomes a snapshot,
	// which says both when it was made and when the span began.
	kind, when := kindStart, s.began
	if s.began > now || t.bucketStart(s.began) != t.bucketStart(now) {
		kind, when = kindSnapshot, now
	}
	t.draftWhole(s, kind)
	place, ok := t.put(when, s, addition{1, activeSize})
	if !ok {
		s.state = spanDropped
		return
	}
	s.state, s.start, s.whole = spanActive, place, now
	t.link(s)
}

// link puts a span at the end of those that run.
//
// +checklocks:t.mu
func (t *Traces) link(s *Span) {
	s.older, t.newest = t.newest, s
	if s.older == nil {
		t.oldest = s
	} else {
		s.older.next = s
	}
	t.active++
	t.refBytes += activeSize
	if s.snapshot.set {
		t.refBytes += placeSize
	}
}

// leave takes a span out of those that run.
//
// +checklocks:t.mu
func (t *Traces) leave(s *Span, state spanState) {
	s.state = state
	if s.older == nil {
		t.oldest = s.next
	} else {
		s.older.next = s.next
	}
	if s.next == nil {
		t.newest = s.older
	} else {
		s.next.older = s.older
	}
	s.older, s.next = nil, nil
	t.active--
	t.refBytes -= activeSize
	if s.snapshot.set {
		t.refBytes -= placeSize
	}
}

// draftWhole drafts a start or a snapshot of the span as it is now.
//
// +checklocks:t.mu
func (t *Traces) draftWhole(s *Span, kind recordKind) {
	t.draftBare(s, kind)
	d := &t.draft
	if kind == kindSnapshot && s.status.set {
		d.setStatus(&s.status.value)
	}
	if s.lostEvents > 0 {
		a := Int(keyDroppedEvents, int64(s.lostEvents))
		t.addAttr(d, &a)
	}
	r := &d.rec
	r.dropped = addCounts(s.dropped, t.addAttrs(d, s.attrs))
	r.droppedLinks = addCounts(s.droppedLinks, t.addLinks(d, s.links))
}

// draftBare drafts what of the span never changes.
//
// +checklocks:t.mu
func (t *Traces) draftBare(s *Span, kind recordKind) {
	d := &t.draft
	d.begin(kind, &t.bounds)
	r := &d.rec
	r.trace, r.span, r.parent.value, r.parent.set = s.trace, s.id, s.parent, !s.parent.IsZero()
	r.spanKind, r.flags = uint32(s.kind), s.flags
	d.setName(s.name)
	t.setState(d, s.traceState)
	if kind == kindSnapshot {
		r.start = s.began
	}
	t.addScope(d, s.scope)
}

// addScope says what recorded the span.
//
// +checklocks:t.mu
func (t *Traces) addScope(d *draft, s *Scope) {
	if s == nil {
		return
	}
	for _, a := range [...]Attr{
		String(keyScopeName, s.Name), String(keyScopeVersion, s.Version), String(keyScopeSchema, s.SchemaURL),
	} {
		if a.Value.text != "" {
			t.addAttr(d, &a)
		}
	}
	if len(s.Attributes) > 0 {
		a := Attr{keyScopeAttrs, MapValue(s.Attributes...)}
		t.addAttr(d, &a)
	}
}
