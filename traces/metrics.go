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

	metricDroppedSpans = &metrics.Metric{Name: "traces_dropped_spans",
		Help: "Spans that are recorded no more because too many ran"}
	metricIgnored = &metrics.Metric{Name: "traces_ignored_calls",
		Help: "Calls of spans that had ended or were dropped"}
	metricTrimmed = &metrics.Metric{Name: "traces_trimmed_buckets",
		Help: "Buckets that were removed because of their age or size"}
	metricWrite = &metrics.Metric{Kind: metrics.Timer, Name: "traces_write",
		Help: "How long writing a chunk took"}
)

func chunks(what string) *metrics.Metric {
	return &metrics.Metric{Name: "traces_chunks", Label: "what", Value: what,
		Help: "Chunks of spans, by what happened to them; one that failed is tried again"}
}

// later has fn called when t.mu is free. Loggers and sinks are the program's, and may ask
// for Stats, or record; those who wait hear of something when these have.
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
	if t.meter != nil && n > 0 {
		t.later(func() { t.meter.Add(m, n) })
	}
}

// +checklocks:t.mu
func (t *Traces) observe(m *metrics.Metric, d time.Duration) {
	if t.meter != nil {
		t.later(func() { t.meter.Observe(m, max(d, 0)) })
	}
}
