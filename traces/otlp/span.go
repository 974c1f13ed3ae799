package otlp

import (
	"bytes"
	"fmt"
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

// spanData returns a message as a span, without its resource and scope.
func spanData(p *tracepb.Span) (s traces.SpanData, err error) {
	s = traces.SpanData{
		Name: p.GetName(), Kind: traces.SpanKind(p.GetKind()), TraceState: p.GetTraceState(), Flags: p.GetFlags(),
		Attributes:        attrs(p.GetAttributes()),
		DroppedAttributes: p.GetDroppedAttributesCount(),
		DroppedEvents:     p.GetDroppedEventsCount(),
		DroppedLinks:      p.GetDroppedLinksCount(),
		Status:            status(p.GetStatus()),
	}
	if err := ids(&s.TraceID, p.GetTraceId(), &s.SpanID, p.GetSpanId()); err != nil {
		return traces.SpanData{}, err
	}
	if b := p.GetParentSpanId(); len(b) == len(s.Parent) {
		s.Parent = traces.SpanID(b)
	} else if len(b) > 0 {
		return traces.SpanData{}, fmt.Errorf("a parent's id of %d bytes", len(b))
	}
	if s.Start, err = timeOf(p.GetStartTimeUnixNano()); err != nil {
		return traces.SpanData{}, err
	}
	if s.End, err = timeOf(p.GetEndTimeUnixNano()); err != nil {
		return traces.SpanData{}, err
	}
	for _, e := range p.GetEvents() {
		at, err := timeOf(e.GetTimeUnixNano())
		if err != nil {
			return traces.SpanData{}, err
		}
		s.Events = append(s.Events, traces.Event{
			Time: at, Name: e.GetName(), Attributes: attrs(e.GetAttributes()), DroppedAttributes: e.GetDroppedAttributesCount(),
		})
	}
	for _, p := range p.GetLinks() {
		l := traces.Link{
			TraceState: p.GetTraceState(), Attributes: attrs(p.GetAttributes()), DroppedAttributes: p.GetDroppedAttributesCount(),
		}
		if err := ids(&l.TraceID, p.GetTraceId(), &l.SpanID, p.GetSpanId()); err != nil {
			return traces.SpanData{}, fmt.Errorf("link: %w", err)
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// status returns a Status; a code that isn't known is none.
func status(p *tracepb.Status) traces.Status {
	s := traces.Status{Message: p.GetMessage()}
	switch p.GetCode() {
	case tracepb.Status_STATUS_CODE_OK:
		s.Code = traces.StatusOK
	case tracepb.Status_STATUS_CODE_ERROR:
		s.Code = traces.StatusError
	}
	return s
}

func ids(trace *traces.TraceID, t []byte, span *traces.SpanID, s []byte) error {
	if len(t) != len(trace) || len(s) != len(span) {
		return fmt.Errorf("ids of %d and %d bytes, not 16 and 8", len(t), len(s))
	}
	copy(trace[:], t)
	copy(span[:], s)
	if trace.IsZero() || span.IsZero() {
		return fmt.Errorf("an id of zeros")
	}
	return nil
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

// timeOf is the inverse of unixNano.
func timeOf(ns uint64) (time.Time, error) {
	switch {
	case ns == 0:
		return time.Time{}, nil
	case ns >= uint64(maxSeconds*int64(time.Second)):
		return time.Time{}, fmt.Errorf("a time of %d ns", ns)
	}
	return time.Unix(0, int64(ns)).UTC(), nil
}
