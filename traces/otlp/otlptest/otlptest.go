// Package otlptest reads spans in OTLP, for tests: what package otlp writes, and input that people write.
package otlptest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/greenroomdb/greenroom/traces"
)

// ParseJSON returns the spans in OTLP's JSON. Fields that are not known are ignored, ids may
// have upper-case digits, and enums may be names.
func ParseJSON(b []byte) ([]traces.SpanData, error) {
	var d tracepb.TracesData
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &d); err != nil {
		return nil, err
	}
	return spansOf(&d, bytesOfHex)
}

// bytesOfHex returns the id whose hex was read as base64, as which b was decoded.
func bytesOfHex(b []byte) ([]byte, error) {
	id, err := hex.DecodeString(base64.StdEncoding.EncodeToString(b))
	if err != nil {
		return nil, fmt.Errorf("an id that is not in hex: %w", err)
	}
	return id, nil
}

// FromProto returns the spans that the messages have, in their order; those of one
// ResourceSpans have the same Resource. They share nothing with the messages but bytes.
//
// The errors are for ids of wrong sizes or of zeros, and for times beyond the year 2262.
func FromProto(d *tracepb.TracesData) ([]traces.SpanData, error) {
	return spansOf(d, func(b []byte) ([]byte, error) { return b, nil })
}

// spansOf is FromProto with a function that decodes ids.
func spansOf(d *tracepb.TracesData, id func([]byte) ([]byte, error)) ([]traces.SpanData, error) {
	var spans []traces.SpanData
	for _, rs := range d.GetResourceSpans() {
		var r *traces.Resource
		if rs.GetResource() != nil || rs.GetSchemaUrl() != "" {
			r = &traces.Resource{Attributes: attrs(rs.GetResource().GetAttributes()), SchemaURL: rs.GetSchemaUrl()}
		}
		for _, ss := range rs.GetScopeSpans() {
			scope := traces.Scope{
				Name: ss.GetScope().GetName(), Version: ss.GetScope().GetVersion(), SchemaURL: ss.GetSchemaUrl(),
				Attributes: attrs(ss.GetScope().GetAttributes()),
			}
			for _, s := range ss.GetSpans() {
				d, err := spanData(s, id)
				if err != nil {
					return nil, fmt.Errorf("span %d, %.80q: %w", len(spans), s.GetName(), err)
				}
				d.Resource, d.Scope = r, scope
				spans = append(spans, d)
			}
		}
	}
	return spans, nil
}

// spanData returns a message as a span, without its resource and scope.
func spanData(p *tracepb.Span, id func([]byte) ([]byte, error)) (s traces.SpanData, err error) {
	s = traces.SpanData{
		Name: p.GetName(), Kind: traces.SpanKind(p.GetKind()), TraceState: p.GetTraceState(), Flags: p.GetFlags(),
		Attributes:        attrs(p.GetAttributes()),
		DroppedAttributes: p.GetDroppedAttributesCount(),
		DroppedEvents:     p.GetDroppedEventsCount(),
		DroppedLinks:      p.GetDroppedLinksCount(),
		Status:            status(p.GetStatus()),
	}
	if err := ids(id, &s.TraceID, p.GetTraceId(), &s.SpanID, p.GetSpanId()); err != nil {
		return traces.SpanData{}, err
	}
	parent, err := id(p.GetParentSpanId())
	if err != nil {
		return traces.SpanData{}, err
	}
	if len(parent) == len(s.Parent) {
		s.Parent = traces.SpanID(parent)
	} else if len(parent) > 0 {
		return traces.SpanData{}, fmt.Errorf("a parent's id of %d bytes", len(parent))
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
		if err := ids(id, &l.TraceID, p.GetTraceId(), &l.SpanID, p.GetSpanId()); err != nil {
			return traces.SpanData{}, fmt.Errorf("link: %w", err)
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// status returns a Status; an unknown code leaves it unset.
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

func ids(id func([]byte) ([]byte, error), trace *traces.TraceID, t []byte, span *traces.SpanID, s []byte) error {
	t, bad := id(t)
	s, err := id(s)
	if err := errors.Join(bad, err); err != nil {
		return err
	}
	if len(t) != len(trace) || len(s) != len(span) {
		return fmt.Errorf("ids of %d and %d bytes, not 16 and 8", len(t), len(s))
	}
	copy(trace[:], t)
	copy(span[:], s)
	if trace.IsZero() || span.IsZero() {
		return errors.New("an id of zeros")
	}
	return nil
}

// timeOf returns a time as spans have it: the zero time for 0.
func timeOf(ns uint64) (time.Time, error) {
	switch {
	case ns == 0:
		return time.Time{}, nil
	case ns >= math.MaxInt64:
		return time.Time{}, fmt.Errorf("a time of %d ns", ns)
	}
	return time.Unix(0, int64(ns)).UTC(), nil
}

// attrs returns messages as attributes; of a key that is there twice the last one.
func attrs(list []*commonpb.KeyValue) []traces.Attr {
	if len(list) == 0 {
		return nil
	}
	out := make([]traces.Attr, 0, len(list))
	seen := make(map[string]int, len(list))
	for _, kv := range list {
		a := traces.Attr{Key: kv.GetKey(), Value: fromValue(kv.GetValue())}
		if at, ok := seen[a.Key]; ok {
			out[at] = a
			continue
		}
		seen[a.Key] = len(out)
		out = append(out, a)
	}
	return out
}

// fromValue returns a message as a value. What isn't known is null.
func fromValue(p *commonpb.AnyValue) traces.Value {
	switch x := p.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return traces.StringValue(x.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return traces.BoolValue(x.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return traces.IntValue(x.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		if math.IsNaN(x.DoubleValue) {
			return traces.FloatValue(math.NaN()) // JSON knows only one
		}
		return traces.FloatValue(x.DoubleValue)
	case *commonpb.AnyValue_BytesValue:
		return traces.BytesValue(x.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		values := x.ArrayValue.GetValues()
		list := make([]traces.Value, len(values))
		for i, v := range values {
			list[i] = fromValue(v)
		}
		return traces.ArrayValue(list...)
	case *commonpb.AnyValue_KvlistValue:
		return traces.MapValue(attrs(x.KvlistValue.GetValues())...)
	}
	return traces.Value{}
}
