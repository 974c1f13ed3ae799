package host

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// A tally adds up what is counted.
type tally struct {
	mu sync.Mutex
	n  map[*metrics.Metric]int64
}

func (y *tally) Add(m *metrics.Metric, n int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.n[m] += n
}

func (y *tally) Observe(m *metrics.Metric, _ time.Duration) { y.Add(m, 1) }

func TestMetrics(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Metrics("thing") {
		key := m.Name + "/" + m.Value
		if names[key] || !strings.HasPrefix(m.Name, "host_") || m.Help == "" {
			t.Errorf("%+v", m)
		}
		names[key] = true
	}
	var d diary
	y := &tally{n: map[*metrics.Metric]int64{}}
	bubble(t, Options{Metrics: y, MaxAwake: 1}, func(r *rig) {
		r.plan("plan", time.Hour)
		_, err := invoke[any](r.ctx, r.Host, lobby, "cancel", 17)
		wantErr(t, err, ErrArgs)
		_, err = invoke[int](r.ctx, r.Host, Address{"thing", "other"}, "rung", nil)
		must(t, err)
		pass(2 * time.Hour)
		must(t, r.Destroy(r.ctx, lobby))
		of := metricsOf("thing")
		for m, want := range map[*metrics.Metric]int64{
			of.turns: 5, of.failed: 1, metricTurnTime: 5, metricWoken: 4, metricWakeTime: 4, metricEvicted: 1,
			metricCrowded: 1, metricAlarms: 1, metricSlept: 3, metricDestroyed: 1, metricLost: 0,
		} {
			y.mu.Lock()
			if got := y.n[m]; got != want {
				t.Errorf("%s %s: %d, want %d", m.Name, m.Value, got, want)
			}
			y.mu.Unlock()
		}
	}, clockThing(&d))
}
