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
	r      *recorder
	trace  TraceID
	id     SpanID
	parent SpanID
	hash   uint64 // of trace

	// Guarded by the lock of the store.
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

// inherit makes s a child of p, whose trace and depth never change.
func (s *Span) inherit(p *Span) { s.trace, s.parent, s.depth = p.trace, p.id, p.depth+1 }

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

// base returns where the newest record is that says what the span is.
func (s *Span) base() seat {
	if s.snapshot.set {
		return s.snapshot.value
	}
	return s.start
}

// beginsBeside reports whether another chunk than that of a record says what span it is.
func (s *Span) beginsBeside(end seat) bool {
	other := func(s seat) bool { return s.bucket != end.bucket || s.number != end.number }
	return s.start.bucket != nil && (other(s.start) || s.snapshot.set && other(s.snapshot.value))
}

// hashIn returns the hash of the span's trace if b hasn't got it from this span, else 0. The span
// may be nil.
func (s *Span) hashIn(b *builder) uint64 {
	if s == nil || s.seen == b.serial {
		return 0
	}
	s.seen = b.serial
	return s.hash
}
