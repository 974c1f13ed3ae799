package actorotel

import (
	"context"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns next such that what is logged with a context that has a span is an
// event of that span, too: with its level and its message. Its attributes are not: they may
// be more than a span should hold, and are in the log.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ next slog.Handler }

func (h logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		opts := []trace.EventOption{trace.WithAttributes(
			KeyLogLevel.String(strings.ToLower(r.Level.String())), KeyLogMessage.String(r.Message))}
		if !r.Time.IsZero() {
			opts = append(opts, trace.WithTimestamp(r.Time))
		}
		span.AddEvent(EventLog, opts...)
	}
	return h.next.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.next.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.next.WithGroup(name)} }
