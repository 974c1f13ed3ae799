package otelsdk_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otelsdk"
)

func Example() {
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

	// Any instrumented program takes the provider.
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(otelsdk.New(tr, nil)))
	_, span := provider.Tracer("shop").Start(ctx, "order")
	span.SetAttributes(attribute.Int("items", 3))
	span.End()

	if err := provider.Shutdown(ctx); err != nil { // flushes
		log.Fatal(err)
	}
	found, err := tr.Read(ctx, traces.Query{Name: "order"})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range found.Spans {
		fmt.Println(s.Scope.Name, s.Name, s.Attributes, s.Running())
	}
	if err := tr.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := actor.Close(); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: shop order [{items 3}] false
}
