package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/traces"
)

// otelNoop is the peer of traces/span: OpenTelemetry's SDK with an exporter that does
// nothing. It is a program of another module, bench/peers, so that nothing here links the
// SDK.
const otelNoop = "otel-noop-export"

// mostPending is how many chunks may wait before the recording waits for them: an operation
// that the store can't keep up with must not count by being dropped.
const mostPending = 32

// checkEvery is after how many spans that is looked at: fewer than fill a chunk.
const checkEvery = 256

// openTraces opens traces/span: a span with five attributes, two events and a status is
// started and ended; all are stored when a round ends.
func openTraces(s *stand) {
	t := must(traces.Open(s.ctx, s.actor("bench"), &traces.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}}))
	s.end(func() error { return t.Close(context.Background()) })
	next := int64(0)
	s.run = func(n int) error {
		for i := range n {
			recordSpan(t, next)
			next++
			if i%checkEvery == 0 && t.Stats().Pending >= mostPending {
				if err := t.Flush(s.ctx); err != nil {
					return err
				}
			}
		}
		err := t.Flush(s.ctx)
		if c := t.Stats(); err == nil && c.DroppedChunks+c.DroppedRecords+c.DroppedSpans > 0 {
			err = fmt.Errorf("%d records were dropped", c.DroppedRecords)
		}
		return err
	}
}

// recordSpan records the i-th span. bench/peers/otelnoop does the same, to the letter.
func recordSpan(t *traces.Traces, i int64) {
	span := t.Begin("actor.action.add", &traces.StartOptions{Kind: traces.KindServer, Attributes: []traces.Attr{
		traces.String("rivet.actor.id", "hodf9r0nebitxihti137r3va5c0000"),
		traces.String("rivet.actor.name", "counter"),
		traces.String("rivet.action.name", "add"),
		traces.Int("rivet.queue.message_id", i),
		traces.Bool("rivet.action.scheduled", i%2 == 0),
	}})
	span.Event("queue.message.receive", traces.Float("rivet.queue.latency_ms", float64(i%1000)/8))
	span.Event("queue.message.complete")
	span.SetStatus(traces.StatusOK, "")
	span.End()
}
