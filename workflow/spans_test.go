package workflow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
		defer func() { must(t, provider.Shutdown(ctx)) }()
		r := newRigWith(t, Options{Tracing: provider})
		fn := func(c *Context, _ int) (int, error) {
			_, err := Step(c, "a", fails(r, "a", 1, 1))
			if err != nil {
				return 0, err
			}
			c.Sleep("pause", time.Hour)
			return StepWith(c, "b", &StepOptions{MaxAttempts: 1}, func(ctx context.Context) (int, error) {
				if !trace.SpanFromContext(ctx).IsRecording() {
					t.Error("the step's context has no span")
				}
				panic(errors.New("oh"))
			})
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		later(time.Hour)
		status(r, w, Failed)
		var got []string
		parents := map[trace.SpanID]string{}
		for _, s := range rec.Ended() {
			parents[s.SpanContext().SpanID()] = s.Name()
		}
		for _, s := range rec.Ended() {
			text := s.Name()
			for _, kv := range s.Attributes() {
				if kv.Key != attrActor && kv.Key != attrID && kv.Key != attrLive {
					text += fmt.Sprint(" ", kv.Value.String())
				}
			}
			if s.Name() == spanStep && parents[s.Parent().SpanID()] != spanRun {
				t.Error("a step is no child of its run")
			}
			got = append(got, fmt.Sprint(text, " ", s.Status().Code == codes.Error))
		}
		want := "[workflow.step a 1 true workflow.step a 2 false workflow.run sleeping false workflow.step b 1 true workflow.run failed false]"
		if fmt.Sprint(got) != want {
			t.Errorf("got %v\nwant %s", got, want)
		}
	})
}

// TestObserve: the program is told of what each commit has changed.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen, names, gone []string
		r := newRigWith(t, Options{Observe: func(ch Change) {
			text := ch.State.String()
			if names = append(names, ch.Names...); len(ch.Names) > 0 && int(ch.FirstName) != len(names)-len(ch.Names) {
				t.Errorf("the names %q begin at %d, behind %q", ch.Names, ch.FirstName, names)
			}
			for _, e := range ch.Deleted {
				gone = append(gone, e.Type())
			}
			for _, e := range ch.Entries {
				text += fmt.Sprint(" ", e.Type(), " ", e.Metadata.Status)
			}
			seen = append(seen, text)
		}})
		fn := func(c *Context, _ int) (int, error) {
			c.Now("now")
			_, err := Step(c, "a", work(r, "a", 1))
			return 1, err
		}
		w := begin(r, fn, 0)
		output(r, w, 1)
		want := "[pending running step completed step running completed step completed]"
		if fmt.Sprint(seen) != want {
			t.Errorf("got  %v\nwant %s", seen, want)
		}
		must(t, w.ReplayFrom(ctx, "a"))
		if fmt.Sprint(names, gone) != "[now a] [step]" {
			t.Errorf("names %q, deleted %q", names, gone)
		}
	})
}
