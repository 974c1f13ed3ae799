package main

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/hosttest"
	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/workflowtest"
)

var tea = Order{"ann@example.org", "tea", 500}

// An orderTest is an order whose steps fail as the test says, in a world that is logged.
type orderTest struct {
	*hosttest.Actor
	workflowtest.Steps
	env *hosttest.Env
	log strings.Builder
}

func runOrder(t *testing.T, test func(t *testing.T, o *orderTest)) {
	o := &orderTest{}
	w := logged{slog.New(slog.NewTextHandler(&o.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))}
	kind := orders(w)
	kind.Workflow = host.NewWorkflow(func(c *workflow.Context, order Order) (string, error) { return fulfil(c, w, order) },
		&greenroom.WorkflowOptions{Around: o.Around})
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		o.env, o.Actor = e, e.Actor("order", "7")
		test(t, o)
	}, kind, mailboxes(w.send))
}

// done returns what was done. With a key that has come before it is not done again.
func (o *orderTest) done() string {
	var lines, words []string
	for line := range strings.Lines(o.log.String()) {
		if !slices.Contains(lines, line) {
			lines, words = append(lines, line), append(words, strings.TrimPrefix(strings.Fields(line)[1], "msg="))
		}
	}
	return strings.Join(words, " ")
}

func (o *orderTest) status() string { return hosttest.Call[string](o, "status", nil) }

func TestOrder(t *testing.T) {
	runOrder(t, func(t *testing.T, o *orderTest) {
		o.Step("charge").Fail(errors.New("no connection"), 2)
		hosttest.Call[any](o, "place", tea)
		o.env.Advance(patience / 2)
		if s := o.status(); !strings.HasPrefix(s, "packed: parcel ") {
			t.Error(s)
		}
		o.env.Crash()
		for range 2 {
			hosttest.Call[any](o, "shipped", "AB 12")
		}
		o.env.Advance(time.Second)
		if got := hosttest.Result[string](o.Actor); got != "AB 12" || o.status() != "shipped: AB 12" {
			t.Error(got, o.status())
		}
		if got := o.done(); got != "charge pack mail" || o.Step("charge").Attempts() != 3 {
			t.Error(got)
		}
	})
}

// TestOrderUndone has orders fail at each step that may.
func TestOrderUndone(t *testing.T) {
	for step, want := range map[string]string{"charge": "", "pack": "charge refund", "carrier": "charge pack unpack refund"} {
		runOrder(t, func(t *testing.T, o *orderTest) {
			o.Step(step).Fail(errors.New("out of stock"), -1) // the carrier isn't a step, and doesn't come
			hosttest.Call[any](o, "place", tea)
			o.env.Advance(patience + time.Minute)
			if s := o.status(); !strings.HasPrefix(s, "failed: ") || o.done() != want {
				t.Errorf("%s: %s, done %q", step, s, o.done())
			}
		})
	}
}

// TestOrderCrashes has an order whose host crashes after each commit: all is done once.
func TestOrderCrashes(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		runOrder(t, func(t *testing.T, o *orderTest) {
			o.env.CrashAfter(n)
			_, _ = o.Do("place", tea)
			_, _ = o.Do("shipped", "AB 12")
			o.env.Advance(time.Minute)
			_, err := o.Do("status", nil)
			done = err == nil // it hasn't come to a crash
			o.env.Crash()
			if _, err := o.Do("place", tea); err != nil && !errors.Is(err, workflow.ErrOver) {
				t.Error(err)
			}
			hosttest.Call[any](o, "shipped", "AB 12")
			o.env.Advance(time.Minute)
			if s, got := o.status(), o.done(); s != "shipped: AB 12" || got != "charge pack mail" {
				t.Errorf("after %d commits: %s, done %q", n, s, got)
			}
		})
	}
}
