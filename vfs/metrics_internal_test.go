package vfs

import (
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/metrics"
)

// TestMeterCost: nothing is allocated for a Sink.
func TestMeterCost(t *testing.T) {
	var m *meter
	var c counters
	if n := testkit.FewestAllocs(func() { m.observe(metricWaitTime, m.start()); m.flush(&c); m.failed() }); n > 0 {
		t.Errorf("%v allocations without a Sink", n)
	}
	m = newMeter(&mute{})
	if n := testkit.FewestAllocs(func() {
		c.pageReads.Add(1)
		m.observe(metricWaitTime, m.start())
		m.flush(&c)
	}); n > 0 {
		t.Errorf("%v allocations with a Sink", n)
	}
}

// A mute is a Sink that forgets.
type mute struct{}

func (*mute) Add(*metrics.Metric, int64)             {}
func (*mute) Observe(*metrics.Metric, time.Duration) {}
