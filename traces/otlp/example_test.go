package otlp_test

import (
	"context"
	"fmt"
	"log"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp"
)

func ExampleAppendJSON() {
	b, err := otlp.AppendJSON(nil, []traces.SpanData{{
		TraceID: traces.TraceID{15: 1}, SpanID: traces.SpanID{7: 1}, Name: "work",
		Start: time.Unix(1, 0), End: time.Unix(2, 0), Attributes: []traces.Attr{traces.Int("n", 1)},
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
	// Output:
	// {"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"work","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000","attributes":[{"key":"n","value":{"intValue":"1"}}]}]}]}]}
}

// A printer takes spans, as an endpoint does, and prints their names.
type printer struct{}

func (printer) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	for _, resource := range spans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				fmt.Println(span.Name)
			}
		}
	}
	return nil
}

func ExamplePush() {
	ctx := context.Background()
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	tr, err := traces.Open(ctx, actor, nil)
	if err != nil {
		log.Fatal(err)
	}
	tr.Begin("work", nil).End()
	tr.Begin("more work", nil) // goes on, and is not sent

	// In a program this is otlptracehttp.NewClient() of OpenTelemetry, or otlptracegrpc's.
	var collector printer
	// The next push begins where this one ends.
	until := time.Now().Add(time.Second)
	pushed, err := otlp.Push(ctx, tr.Read, traces.Query{End: until}, collector)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pushed.Spans, "span sent")
	if err := tr.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := actor.Close(); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// work
	// 1 span sent
}
