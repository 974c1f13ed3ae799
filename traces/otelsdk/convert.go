package otelsdk

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/traces"
)

// spanData returns all that a span of the SDK has.
func spanData(s sdktrace.ReadOnlySpan, res *traces.Resource) *traces.SpanData {
	sc, parent := s.SpanContext(), s.Parent()
	d := &traces.SpanData{
		TraceID: traces.TraceID(sc.TraceID()), SpanID: traces.SpanID(sc.SpanID()), Parent: traces.SpanID(parent.SpanID()),
		Name: s.Name(), Kind: kindOf(s.SpanKind()), Start: s.StartTime(), End: s.EndTime(),
		TraceState: sc.TraceState().String(), Flags: flagsOf(sc, parent), Status: statusOf(s.Status()),
		Attributes: attrsOf(s.Attributes()), Links: linksOf(s.Links()),
		DroppedAttributes: uint32(s.DroppedAttributes()), DroppedLinks: uint32(s.DroppedLinks()), DroppedEvents: uint32(s.DroppedEvents()),
		Resource: res, Scope: scopeOf(s.InstrumentationScope()),
	}
	for _, e := range s.Events() {
		d.Events = append(d.Events, eventOf(e))
	}
	return d
}

// Bits of OTLP's flags beyond those of W3C's: that it is known whether the parent is in
// another process, and that it is.
const (
	flagHasRemote = 1 << 8
	flagRemote    = 1 << 9
)

// flagsOf returns the flags as OTLP has them.
func flagsOf(sc, parent trace.SpanContext) uint32 {
	f := uint32(sc.TraceFlags()) | flagHasRemote
	if parent.IsRemote() {
		f |= flagRemote
	}
	return f
}

// kindOf returns a kind: the API counts them as OTLP does.
func kindOf(k trace.SpanKind) traces.SpanKind {
	if k < trace.SpanKindInternal || k > trace.SpanKindConsumer {
		return traces.KindUnspecified
	}
	return traces.SpanKind(k)
}

// statusOf returns a status: the API counts codes otherwise than OTLP does.
func statusOf(s sdktrace.Status) traces.Status {
	switch s.Code {
	case codes.Ok:
		return traces.Status{Code: traces.StatusOK, Message: s.Description}
	case codes.Error:
		return traces.Status{Code: traces.StatusError, Message: s.Description}
	}
	return traces.Status{Message: s.Description}
}

func scopeOf(s instrumentation.Scope) traces.Scope {
	scope := traces.Scope{Name: s.Name, Version: s.Version, SchemaURL: s.SchemaURL}
	if s.Attributes.Len() > 0 {
		scope.Attributes = attrsOf(s.Attributes.ToSlice())
	}
	return scope
}

func eventOf(e sdktrace.Event) traces.Event {
	return traces.Event{
		Time: e.Time, Name: e.Name, Attributes: attrsOf(e.Attributes), DroppedAttributes: uint32(e.DroppedAttributeCount),
	}
}

func linksOf(links []sdktrace.Link) []traces.Link {
	if len(links) == 0 {
		return nil
	}
	out := make([]traces.Link, len(links))
	for i, l := range links {
		out[i] = traces.Link{
			TraceID: traces.TraceID(l.SpanContext.TraceID()), SpanID: traces.SpanID(l.SpanContext.SpanID()),
			TraceState: l.SpanContext.TraceState().String(),
			Attributes: attrsOf(l.Attributes), DroppedAttributes: uint32(l.DroppedAttributeCount),
		}
	}
	return out
}

func attrsOf(list []attribute.KeyValue) []traces.Attr {
	if len(list) == 0 {
		return nil
	}
	out := make([]traces.Attr, len(list))
	for i, kv := range list {
		out[i] = traces.Attr{Key: string(kv.Key), Value: valueOf(kv.Value)}
	}
	return out
}

// valueOf returns a value of the API. One of a type that isn't known is a text.
func valueOf(v attribute.Value) traces.Value {
	switch v.Type() {
	case attribute.EMPTY:
		return traces.Value{}
	case attribute.BOOL:
		return traces.BoolValue(v.AsBool())
	case attribute.INT64:
		return traces.IntValue(v.AsInt64())
	case attribute.FLOAT64:
		return traces.FloatValue(v.AsFloat64())
	case attribute.STRING:
		return traces.StringValue(v.AsString())
	case attribute.BYTESLICE:
		return traces.BytesValue(v.AsByteSlice())
	case attribute.BOOLSLICE:
		return arrayOf(v.AsBoolSlice(), traces.BoolValue)
	case attribute.INT64SLICE:
		return arrayOf(v.AsInt64Slice(), traces.IntValue)
	case attribute.FLOAT64SLICE:
		return arrayOf(v.AsFloat64Slice(), traces.FloatValue)
	case attribute.STRINGSLICE:
		return arrayOf(v.AsStringSlice(), traces.StringValue)
	case attribute.SLICE:
		return arrayOf(v.AsSlice(), valueOf)
	case attribute.MAP:
		return traces.MapValue(attrsOf(v.AsMap())...)
	}
	return traces.StringValue(v.String())
}

func arrayOf[T any](list []T, of func(T) traces.Value) traces.Value {
	out := make([]traces.Value, len(list))
	for i, x := range list {
		out[i] = of(x)
	}
	return traces.ArrayValue(out...)
}
