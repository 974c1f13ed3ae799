package traces

import "time"

// A SpanKind says which side of a call a span is. The numbers are those of OTLP
// (https://opentelemetry.io/docs/specs/otlp/), and others are kept as they are.
type SpanKind uint32

// The kinds of spans.
const (
	KindUnspecified SpanKind = iota
	KindInternal
	KindServer
	KindClient
	KindProducer
	KindConsumer
)

// A StatusCode says how a span went. The numbers are those of OTLP.
type StatusCode uint8

// The codes there are.
const (
	StatusUnset StatusCode = iota
	StatusOK
	StatusError
)

// A Status is how a span went, and of an error why, in words.
type Status struct {
	Code    StatusCode
	Message string
}

// A Link points from a span to another one, in the same trace or in another.
type Link struct {
	TraceID           TraceID
	SpanID            SpanID
	TraceState        string // of W3C Trace Context
	Attributes        []Attr
	DroppedAttributes uint32 // there were so many more
}

// An Event is something that happened while a span ran.
type Event struct {
	Time              time.Time
	Name              string
	Attributes        []Attr
	DroppedAttributes uint32
}

// A Resource is the program that recorded spans. It is compared by its address:
// a program that records many spans gives them all the same one. It must not change.
type Resource struct {
	Attributes []Attr
	SchemaURL  string
}

// A Scope is the library within the program that recorded a span.
type Scope struct {
	Name, Version, SchemaURL string
	Attributes               []Attr
}

// IsZero reports whether nothing is known about the library.
func (s *Scope) IsZero() bool {
	return s.Name == "" && s.Version == "" && s.SchemaURL == "" && len(s.Attributes) == 0
}

// SpanData is a span as it was recorded. Of one that is read, slices and pointers may be
// shared with other spans of the same result, and must not be changed.
type SpanData struct {
	TraceID    TraceID
	SpanID     SpanID
	Parent     SpanID // zero: a root, or its parent is not known
	Name       string
	Kind       SpanKind
	Start      time.Time
	End        time.Time // zero: it still runs
	TraceState string    // of W3C Trace Context
	Flags      uint32    // of W3C Trace Context, as in OTLP
	Status     Status

	Attributes []Attr // no key twice
	Links      []Link
	Events     []Event // by time

	// There were so many more, which a limit kept out.
	DroppedAttributes, DroppedLinks, DroppedEvents uint32

	// Resource and Scope say what recorded it, nil and zero if that isn't said. They are
	// stored as docs/traces.md says.
	Resource *Resource
	Scope    Scope

	// Partial says, of a span that is read, that some of it was not: events and
	// attributes from before the range, too many chunks ago (Query.MaxChunks) or damaged.
	Partial bool
}

// Running reports whether the span still runs.
func (s *SpanData) Running() bool { return s.End.IsZero() }

// Duration is how long the span took, 0 while it runs.
func (s *SpanData) Duration() time.Duration {
	if s.Running() {
		return 0
	}
	return s.End.Sub(s.Start)
}
