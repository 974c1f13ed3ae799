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

func (y *tally) Observe(m *metrics.Metric, d time.Duration) {
	if m.Kind == metrics.Timer {
		d = 1
	}
	y.Add(m, int64(d))
}

func TestMetrics(t *testing.T) {
	names := map[string]bool{}
	var d diary
	thing := clockThing(&d)
	for _, m := range Metrics(thing, thing) {
		if names[m.String()] || !strings.HasPrefix(m.Name, "host_") || m.Help == "" {
			t.Errorf("%+v", m)
		}
		names[m.String()] = true
	}
	y := &tally{n: map[*metrics.Metric]int64{}}
	bubble(t, Options{Metrics: y, MaxAwake: 1}, func(r *rig) {
		r.plan("plan", time.Hour)
		_, err := invoke[any](r.ctx, r.Host, lobby, "cancel", 17)
		wantErr(t, err, ErrArgs)
		_, err = invoke[int](r.ctx, r.Host, Address{"thing", "other"}, "rung", nil)
		must(t, err)
		pass(2 * time.Hour)
		must(t, r.Destroy(r.ctx, lobby))
		of := thing.metrics()
		want := map[*metrics.Metric]int64{
			of.actions["plan"].time: 1, of.actions["rung"].time: 1, of.actions["ring"].time: 1, of.actions["cancel"].time: 1, of.actions["cancel"].failed: 1, of.turns[turnOther].time: 1,
			metricWoken: 4, metricWakeTime: 4, metricEvicted: 1, metricCrowded: 1, metricAlarms: 1, metricSlept: 3, metricDestroyed: 1, metricLost: 0,
		}
		y.mu.Lock()
		defer y.mu.Unlock()
		for _, m := range Metrics(thing) {
			if of := want[m]; y.n[m] != of && (of != 0 || strings.HasPrefix(m.Name, "host_turn")) {
				t.Errorf("%s: %d, want %d", m, y.n[m], of)
			}
		}
	}, thing)
}
