package otlp

import (
	"bytes"
	"math"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/greenroomdb/greenroom/traces"
)

// span returns a span as a message.
func span(s *traces.SpanData) *tracepb.Span {
	p := &tracepb.Span{
		// Slices of the ids would be slices of the span, which is the caller's.
		TraceId: bytes.Clone(s.TraceID[:]), SpanId: bytes.Clone(s.SpanID[:]), Name: text(s.Name),
		TraceState: text(s.TraceState), Flags: s.Flags,
		StartTimeUnixNano: unixNano(s.Start), EndTimeUnixNano: unixNano(s.End),
		Attributes:             attributes(s.Attributes),
		DroppedAttributesCount: s.DroppedAttributes,
		DroppedEventsCount:     s.DroppedEvents,
		DroppedLinksCount:      s.DroppedLinks,
	}
	if !s.Parent.IsZero() {
		p.ParentSpanId = bytes.Clone(s.Parent[:])
	}
	if s.Kind <= math.MaxInt32 {
		p.Kind = tracepb.Span_SpanKind(s.Kind)
	}
	if s.Status != (traces.Status{}) {
		p.Status = &tracepb.Status{Code: tracepb.Status_StatusCode(s.Status.Code), Message: text(s.Status.Message)}
	}
	for i := range s.Events {
		e := &s.Events[i]
		p.Events = append(p.Events, &tracepb.Span_Event{
			TimeUnixNano: unixNano(e.Time), Name: text(e.Name),
			Attributes: attributes(e.Attributes), DroppedAttributesCount: e.DroppedAttributes,
		})
	}
	for i := range s.Links {
		l := &s.Links[i]
		p.Links = append(p.Links, &tracepb.Span_Link{
			TraceId: bytes.Clone(l.TraceID[:]), SpanId: bytes.Clone(l.SpanID[:]),
			TraceState: text(l.TraceState),
			Attributes: attributes(l.Attributes), DroppedAttributesCount: l.DroppedAttributes,
		})
	}
	return p
}

// maxSeconds is where times end: in the year 2262, which a time.Time in nanoseconds has.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// unixNano returns t as OTLP has it: 0 for no time, and for those that it can't have.
func unixNano(t time.Time) uint64 {
	if s := t.Unix(); s < 0 || s >= maxSeconds {
		return 0
	}
	return uint64(t.UnixNano())
}
