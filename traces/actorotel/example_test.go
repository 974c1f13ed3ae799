package actorotel_test

import (
	"context"
	"fmt"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/greenroomdb/greenroom/traces/actorotel"
)

func Example() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)) // or with traces/otelsdk

	rec := actorotel.New(provider, actorotel.Actor{ID: "a1", Name: "lobby"})
	err := rec.RunAction(ctx, "greet", func(ctx context.Context) error {
		actorotel.Broadcast(ctx, "greeting")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, s.Events[0].Name)
	}
	if err := provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: actor.action.greet message.broadcast
}
