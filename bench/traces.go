package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/traces"
)

// otelNoop is the peer of traces/span: OpenTelemetry's SDK with an exporter that does
// nothing. It is a program of another module, bench/peers, so that nothing here links the
// SDK.
const otelNoop = "otel-noop-export"

// tracesLines is traces/span: a span with five attributes, two events and a status is started
// and ended; all are stored when a round ends. There is none where the peer's source isn't,
// or no Go to build it with: a program that was copied to another machine.
func tracesLines(engine string) []line {
	dir, ok := peersDir()
	if !ok {
		return nil
	}
	return []line{{
		"traces/span", "span/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openTracer(ctx, at) }},
		side{otelNoop, func(ctx context.Context, at site) (runner, error) { return openPeer(ctx, at, dir, "otelnoop") }},
	}}
}

// A tracer is an actor that records spans.
type tracer struct {
	engine *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
	traces *traces.Traces
	next   int64
}

var _ runner = (*tracer)(nil)

func openTracer(ctx context.Context, at site) (r *tracer, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	r = &tracer{engine: faultkv.New(engine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.store, err = openStore(ctx, r.engine); err != nil {
		return nil, err
	}
	if r.actor, err = r.store.Named(ctx, "bench", nil); err != nil {
		return nil, err
	}
	r.traces, err = traces.Open(ctx, r.actor, &traces.Options{Logger: slog.New(slog.DiscardHandler)})
	return r, err
}

// mostPending is how many chunks may wait before the recording waits for them: an operation
// that the store can't keep up with must not count by being dropped.
const mostPending = 32

// checkEvery is after how many spans that is looked at: fewer than fill a chunk.
const checkEvery = 256

func (r *tracer) run(ctx context.Context, n int) error {
	for i := range n {
		r.record()
		if i%checkEvery == 0 && r.traces.Stats().Pending >= mostPending {
			if err := r.traces.Flush(ctx); err != nil {
				return err
			}
		}
	}
	err := r.traces.Flush(ctx)
	if s := r.traces.Stats(); err == nil && s.DroppedChunks+s.DroppedRecords+s.DroppedSpans > 0 {
		err = fmt.Errorf("%d records were dropped", s.DroppedRecords)
	}
	return err
}

// record records one span. bench/peers/otelnoop does the same, to the letter.
func (r *tracer) record() {
	i := r.next
	r.next++
	span := r.traces.Begin("actor.action.add", &traces.StartOptions{Kind: traces.KindServer, Attributes: []traces.Attr{
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

func (r *tracer) counts() faultkv.Counts { return r.engine.Counts() }

func (r *tracer) close() error {
	var errs []error
	if r.traces != nil {
		errs = append(errs, r.traces.Close(context.Background()))
	}
	if r.actor != nil {
		errs = append(errs, r.actor.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(append(errs, r.engine.Close())...)
}
