package greenroom_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/workflow"
)

// sums are a Sink that adds up what it is told, by the names of the metrics.
type sums struct {
	mu  sync.Mutex
	all map[string]int64
}

func (s *sums) Add(m *metrics.Metric, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[m.String()] += n
}

func (s *sums) Observe(m *metrics.Metric, _ time.Duration) { s.Add(m, 1) }

// TestMetrics: a Sink is told what became of workflows, and of attempts at steps.
func TestWorkflowMetrics(t *testing.T) {
	sink := &sums{all: map[string]int64{}}
	ctx := t.Context()
	engine := memkv.New()
	store, err := greenroom.New(ctx, engine, &greenroom.Options{Metrics: sink})
	testkit.Must(t, err)
	run := func(name string, ends error) {
		a, err := store.Actor(ctx, name, nil)
		testkit.Must(t, err)
		attempts := 0
		_, err = greenroom.RunWorkflow(ctx, a, func(c *workflow.Context, _ int) (int, error) {
			n, err := workflow.StepWith(c, "step", &workflow.StepOptions{Backoff: time.Millisecond}, func(context.Context) (int, error) {
				if attempts++; attempts == 1 {
					return 0, errors.New("not yet")
				}
				return attempts, nil
			})
			return n, errors.Join(err, ends)
		}, 1)
		if (err == nil) != (ends == nil) {
			t.Errorf("%s: %v", name, err)
		}
		testkit.Must(t, a.Close())
	}
	run("good", nil)
	run("bad", errors.New("over"))
	testkit.Must(t, errors.Join(store.Close(), engine.Close()))
	listed := map[string]bool{}
	for _, m := range workflow.Metrics() {
		listed[m.String()] = true
	}
	got := maps.Collect(maps.All(sink.all))
	maps.DeleteFunc(got, func(name string, _ int64) bool { return !listed[name] })
	want := map[string]int64{
		`workflow_runs{what="started"}`: 2, `workflow_runs{what="completed"}`: 1, `workflow_runs{what="failed"}`: 1,
		"workflow_step": 4, `workflow_attempts{what="done"}`: 2, `workflow_attempts{what="failed"}`: 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}
