package persist

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Record tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{metricLarge, metricEventsDone, metricEventsFailed, metricEventsParked, metricEventTime}
}

var (
	metricLarge = metrics.NewCounter("persist_large_records", "Records that came near their limit")

	metricEventsDone   = events("done")
	metricEventsFailed = events("failed")
	metricEventsParked = metrics.NewCounter("persist_events_parked", "Scheduled events that were given up")
	metricEventTime    = metrics.NewTimer("persist_event", "How long actions ran that were called for scheduled events")
)

var events = metrics.Labelled("persist_events", "outcome", "Scheduled events that ran, by outcome")
