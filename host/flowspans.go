package host

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/greenroomdb/greenroom/traces"
)

// A workflow says what it does through OpenTelemetry's API. flowTracer takes that into the
// actor's own traces, as far as workflows use it; what else there is in the API does
// nothing. Turns which a step asks for are children of its span.
type flowTracer struct {
	noop.TracerProvider
	life *life
}

// Tracer implements trace.TracerProvider.
func (p flowTracer) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return tracerOfLife{life: p.life}
}

type tracerOfLife struct {
	noop.Tracer
	life *life
}

// Start implements trace.Tracer. The span's parent is the one of the context.
func (t tracerOfLife) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(opts...)
	o := t.life.spanOf(nil)
	o.Attributes = append(append(make([]traces.Attr, 0, 8), o.Attributes...), attrsOf(config.Attributes())...)
	ctx, s := t.life.traces.Start(ctx, name, o)
	span := &flowSpan{span: s}
	return trace.ContextWithSpan(ctx, span), span
}

// A flowSpan is a span of the actor's traces in the form of the API.
type flowSpan struct {
	noop.Span
	span *traces.Span
	err  error // that was recorded
}

// IsRecording implements trace.Span.
func (s *flowSpan) IsRecording() bool { return s.span.Active() }

// SetAttributes implements trace.Span.
func (s *flowSpan) SetAttributes(attrs ...attribute.KeyValue) {
	s.span.SetAttributes(attrsOf(attrs)...)
}

// RecordError implements trace.Span.
func (s *flowSpan) RecordError(err error, _ ...trace.EventOption) { s.err = err }

// SetStatus implements trace.Span.
func (s *flowSpan) SetStatus(code codes.Code, text string) {
	if code == codes.Error && s.err == nil {
		s.err = errors.New(text)
	}
}

// End implements trace.Span. An error is recorded as that of a turn is.
func (s *flowSpan) End(...trace.SpanEndOption) { endSpan(s.span, s.err) }

// attrsOf returns attributes of the API as those of a span. Those of workflows are
// texts, numbers and truth values; anything else is told as text.
func attrsOf(list []attribute.KeyValue) []traces.Attr {
	attrs := make([]traces.Attr, 0, len(list))
	for _, kv := range list {
		key := string(kv.Key)
		switch kv.Value.Type() {
		case attribute.BOOL:
			attrs = append(attrs, traces.Bool(key, kv.Value.AsBool()))
		case attribute.INT64:
			attrs = append(attrs, traces.Int(key, kv.Value.AsInt64()))
		default:
			attrs = append(attrs, traces.String(key, kv.Value.String()))
		}
	}
	return attrs
}
