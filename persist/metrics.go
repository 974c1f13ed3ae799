package persist

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Record tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{metricLarge, metricEventsDone, metricEventsFailed, metricEventsParked, metricEventTime}
}

var (
	metricLarge = &metrics.Metric{Name: "persist_large_records", Help: "Records that came near their limit"}

	metricEventsDone   = &metrics.Metric{Name: "persist_events", Label: "outcome", Value: "done", Help: "Scheduled events that ran, by outcome"}
	metricEventsFailed = &metrics.Metric{Name: "persist_events", Label: "outcome", Value: "failed", Help: "Scheduled events that ran, by outcome"}
	metricEventsParked = &metrics.Metric{Name: "persist_events_parked", Help: "Scheduled events that were given up"}
	metricEventTime    = &metrics.Metric{Kind: metrics.Timer, Name: "persist_event", Help: "How long actions ran that were called for scheduled events"}
)

func (r *Record) count(m *metrics.Metric, n int64) {
	if r.opts.Metrics != nil {
		r.opts.Metrics.Add(m, n)
	}
}

func (r *Record) observe(m *metrics.Metric, d time.Duration) {
	if r.opts.Metrics != nil {
		r.opts.Metrics.Observe(m, d)
	}
}
