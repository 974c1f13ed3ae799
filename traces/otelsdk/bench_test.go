package otelsdk

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
)

// BenchmarkSpan is a span with two attributes and a status: what the SDK takes alone, and
// what it takes to store it.
func BenchmarkSpan(b *testing.B) {
	store, err := actorstore.Open(b.Context(), memkv.New(), nil)
	if err != nil {
		b.Fatal(err)
	}
	actor, err := store.Named(b.Context(), "lobby", nil)
	if err != nil {
		b.Fatal(err)
	}
	tr, err := traces.Open(b.Context(), actor, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, err := range []error{tr.Close(context.Background()), actor.Close(), store.Close()} {
			if err != nil {
				b.Error(err)
			}
		}
	})
	for name, p := range map[string]sdktrace.SpanProcessor{"sdk": nothing{}, "stored": New(tr, nil)} {
		b.Run(name, func(b *testing.B) {
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("lib")
			b.ReportAllocs()
			for b.Loop() {
				_, s := tracer.Start(context.Background(), "work", trace.WithAttributes(attribute.Int("n", 1)))
				s.SetAttributes(attribute.String("table", "cart"))
				s.End()
			}
		})
	}
}

// nothing is a processor that needs spans to be recorded, and does nothing with them.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }
