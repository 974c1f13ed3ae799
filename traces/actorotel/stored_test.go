package actorotel

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otelsdk"
)

// TestStored has an actor's own traces hold what its runtime does: a scheduled action that
// takes a message from the queue is one span, with both events, in the keys of that actor.
func TestStored(t *testing.T) {
	actor := open(t)
	tr, err := traces.Open(t.Context(), actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(otelsdk.New(tr, nil)))
	rec := New(provider, Actor{ID: actor.ID().String(), Name: "lobby"})
	q, err := queue.Open(t.Context(), actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := persist.Open(t.Context(), actor, &persist.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Enqueue(t.Context(), queue.Send{Name: "job"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Schedule().After(t.Context(), 0, "work"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	err = r.Schedule().Start(t.Context(), rec.Actions(persist.Actions{"work": func(ctx context.Context, _ *persist.Firing) error {
		msgs, err := q.Receive(ctx, &queue.ReceiveOptions{Visibility: time.Hour}) // longer than anything stalls
		if err == nil {
			Received(ctx, msgs[0])
			err = msgs[0].Complete(ctx, nil)
		}
		done <- err
		return err
	}}.Lookup))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, close := range []func(context.Context) error{
		r.Close, func(context.Context) error { return q.Close() }, provider.Shutdown,
	} {
		if err := close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	res, err := tr.Read(t.Context(), traces.Query{Name: ActionSpan("work")})
	if err != nil || len(res.Spans) != 1 {
		t.Fatal(res, err)
	}
	s := res.Spans[0]
	if s.Running() || len(s.Events) != 2 || s.Events[0].Name != EventScheduleTriggered || s.Events[1].Name != EventQueueReceive ||
		s.Scope.Name != scopeName || s.Scope.SchemaURL != SchemaURL || s.Attributes[0].Value.AsString() != actor.ID().String() {
		t.Errorf("got %+v", s)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
