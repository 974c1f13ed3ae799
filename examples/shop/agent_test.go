package main

import (
	"context"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host/hosttest"
)

func TestAgent(t *testing.T) {
	slow := func(ctx context.Context, question string, tell func(word string) error) (string, error) {
		return echo(ctx, question, func(word string) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return tell(word)
			}
		})
	}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		one := e.Actor("agent", "1")
		page, err := one.Connect(nil)
		must(t, err)
		page.Subscribe("word")
		hosttest.Call[any](page, "ask", "why is the sky blue")
		e.Advance(2*time.Minute + time.Second)
		e.Crash() // the model is asked again
		must(t, page.Rejoin())
		if got := hosttest.Call[string](one, "answer", nil); got != "" {
			t.Error(got)
		}
		e.Advance(6 * time.Minute)
		for _, want := range []string{"why", "is", "why", "is", "the", "sky", "blue"} {
			if got := hosttest.Next[string](page, "word"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if got := hosttest.Call[string](one, "answer", nil); got != "why is the sky blue" {
			t.Error(got)
		}
	}, agents(slow))
}
