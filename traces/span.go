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
	// Resource and Scope say who records; nil means Options.Resource, zero nobody.
	Resource *Resource
	Scope    Scope
}

// Start starts a span, and returns it with a context that has it: spans started with that
// context are its children. nil opts are the zero StartOptions. It never fails: what is
// recorded of a span that can't be is ignored, and counted.
func (t *Traces) Start(ctx context.Context, name string, opts *StartOptions) (context.Context, *Span) {
	panic("traces: later")
}

// Begin is Start without a context.
func (t *Traces) Begin(name string, opts *StartOptions) *Span { panic("traces: later") }

// Record records a span that has ended elsewhere, all of it at once: for spans that were
// not started here, or were dropped since. Of one that is stored already it replaces
// everything but the events.
func (t *Traces) Record(s *SpanData) { panic("traces: later") }

// FromContext returns the span that ctx has, nil if it has none. All methods of a nil
// *Span do nothing.
func FromContext(ctx context.Context) *Span { panic("traces: later") }

// NewContext returns a context that has the span.
func NewContext(ctx context.Context, s *Span) context.Context { panic("traces: later") }

// A Span is a span that is being recorded. It is safe for concurrent use. Once it has
// ended, or was dropped, its methods do nothing, which is counted.
type Span struct {
	t *Traces
}

// TraceID returns the id of the trace.
func (s *Span) TraceID() TraceID { panic("traces: later") }

// SpanID returns the id of the span.
func (s *Span) SpanID() SpanID { panic("traces: later") }

// Active reports whether the span is being recorded: it has neither ended nor been
// dropped.
func (s *Span) Active() bool { panic("traces: later") }

// Data returns the span as it is now, without its events.
func (s *Span) Data() SpanData { panic("traces: later") }

// SetAttributes sets attributes, replacing those that have the same keys.
func (s *Span) SetAttributes(attrs ...Attr) { panic("traces: later") }

// SetStatus sets the status.
func (s *Span) SetStatus(code StatusCode, message string) { panic("traces: later") }

// Update is SetAttributes and SetStatus in one record; a nil status leaves it as it is.
// dropped are attributes that are not given here; nothing at all records nothing.
func (s *Span) Update(attrs []Attr, dropped uint32, status *Status) { panic("traces: later") }

// Event records that something happened now.
func (s *Span) Event(name string, attrs ...Attr) { panic("traces: later") }

// AddEvent records that something happened at e.Time, or now if that is zero.
func (s *Span) AddEvent(e Event) { panic("traces: later") }

// Restate records the span whole again, with another name, kind or links, which the
// other methods can't change. Of d it takes those, the attributes, their dropped counts
// and the status; everything else stays.
func (s *Span) Restate(d *SpanData) { panic("traces: later") }

// End ends the span now.
func (s *Span) End() { panic("traces: later") }

// EndWith ends the span at a time, now if that is zero, with a status, unless that is nil.
func (s *Span) EndWith(at time.Time, status *Status) { panic("traces: later") }
