// Command otelnoop is the peer of the line traces/span: OpenTelemetry's SDK for Go, as it
// comes, with an exporter that does nothing.
//
//	otelnoop
//
// It reads numbers from its standard input, one a line. For each it records as many
// spans, waits until the exporter has them, and prints the number. It ends with its
// input. The program that measures it takes the time from the one line to the other.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func main() {
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otelnoop:", err)
		os.Exit(1)
	}
}

// noop is the exporter that does nothing.
type noop struct{}

func (noop) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (noop) Shutdown(context.Context) error                             { return nil }

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(noop{}))
	tracer := provider.Tracer("bench")
	lines := bufio.NewScanner(in)
	for next := int64(0); lines.Scan(); {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		for range n {
			record(ctx, tracer, next)
			next++
		}
		if err := provider.ForceFlush(ctx); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return provider.Shutdown(ctx)
}

// record records one span. bench/traces.go does the same, to the letter.
func record(ctx context.Context, tracer trace.Tracer, i int64) {
	_, span := tracer.Start(ctx, "actor.action.add", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("rivet.actor.id", "hodf9r0nebitxihti137r3va5c0000"),
		attribute.String("rivet.actor.name", "counter"),
		attribute.String("rivet.action.name", "add"),
		attribute.Int64("rivet.queue.message_id", i),
		attribute.Bool("rivet.action.scheduled", i%2 == 0),
	))
	span.AddEvent("queue.message.receive", trace.WithAttributes(attribute.Float64("rivet.queue.latency_ms", float64(i%1000)/8)))
	span.AddEvent("queue.message.complete")
	span.SetStatus(codes.Ok, "")
	span.End()
}
