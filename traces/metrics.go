package traces

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Traces tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricChunks, metricRetries, metricDroppedChunks, metricDroppedSpans, metricIgnored, metricTrimmed, metricWrite,
	}
}

var (
	metricChunks        = chunks("written")
	metricRetries       = chunks("failed")
	metricDroppedChunks = chunks("dropped")

	metricDroppedSpans = metrics.NewCounter("traces_dropped_spans", "Spans that are recorded no more because too many ran")
	metricIgnored      = metrics.NewCounter("traces_ignored_calls", "Calls of spans that had ended or were dropped")
	metricTrimmed      = metrics.NewCounter("traces_trimmed_buckets", "Buckets that were removed because of their age or size")
	metricWrite        = metrics.NewTimer("traces_write", "How long writing a chunk took")
)

var chunks = metrics.Labelled("traces_chunks", "what",
	"Chunks of spans, by what happened to them; one that failed is tried again")

// later calls fn when t.mu is free. Loggers and sinks are the program's, and may ask
// for Stats, or record; those that wait hear of something when these have.
//
// +checklocks:t.mu
func (t *Traces) later(fn func()) { t.tell = append(t.tell, fn) }

// unlock gives t.mu back, and then tells the program what has happened meanwhile.
//
// +checklocksrelease:t.mu
func (t *Traces) unlock() {
	tell := t.tell
	t.tell = nil
	t.mu.Unlock()
	for _, fn := range tell {
		fn()
	}
}

// +checklocks:t.mu
func (t *Traces) count(m *metrics.Metric, n int64) {
	if t.meter.To != nil && n > 0 {
		t.later(func() { t.meter.Count(m, n) })
	}
}

// +checklocks:t.mu
func (t *Traces) observe(m *metrics.Metric, d time.Duration) {
	if t.meter.To != nil {
		t.later(func() { t.meter.Observe(m, d) })
	}
}
