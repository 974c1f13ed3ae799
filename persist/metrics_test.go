package persist

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/metrics"
)

// sums is a Sink that counts calls.
type sums struct {
	mu sync.Mutex
	n  map[*metrics.Metric]int64
}

func (s *sums) Add(m *metrics.Metric, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[m] += n
}

func (s *sums) Observe(m *metrics.Metric, _ time.Duration) { s.Add(m, 1) }

// TestMetrics counts what happens, and nothing that isn't listed.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t), &sums{n: map[*metrics.Metric]int64{}}
		w.limits.ValueSize = 1000
		s := w.start(&Options{Env: part.Env{Metrics: m}, MaxAttempts: 2}, acts{
			"good": func(context.Context, *Firing) error { return nil },
			"bad":  func(context.Context, *Firing) error { return errors.New("no") },
		})
		must(t, counter{w.rec}.set(ctx, count{Pad: string(make([]byte, 760))})) // near the limit, with events and without
		for _, a := range []string{"good", "bad"} {
			_, err := addAfter(s, 0, a)
			must(t, err)
		}
		pass(time.Minute)
		want := map[*metrics.Metric]int64{metricLarge: 1, metricEventsDone: 1, metricEventsFailed: 2, metricEventsParked: 1, metricEventTime: 1}
		for _, one := range Metrics() {
			if m.n[one] != want[one] {
				t.Errorf("%s is %d, want %d", one, m.n[one], want[one])
			}
			delete(m.n, one)
		}
		if len(m.n) != 0 {
			t.Errorf("not listed: %v", m.n)
		}
	})
}
