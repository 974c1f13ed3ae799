package traces

import (
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
