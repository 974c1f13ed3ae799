package pebblekv

import (
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a DB tells Options.Metrics, for a Sink that wants to know
// beforehand.
//
// pebblekv_fsyncs counts the calls that had the disk write out a file of the store, a
// directory of it included, from when its opening begins: what Pebble does in the
// background is among them. Of the log there are fewer than durable commits where
// several wait at once, which is what the metric is for.
//
// pebblekv_log_bytes is what commits cost there: what they change, and the headers of records.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{metricLogFsyncs, metricTableFsyncs, metricOtherFsyncs, metricLogBytes}
}

var (
	metricLogFsyncs   = fsyncs("log")
	metricTableFsyncs = fsyncs("table")
	metricOtherFsyncs = fsyncs("other")
	metricLogBytes    = metrics.NewCounter("pebblekv_log_bytes", "Bytes that were written to the logs of stores in directories")
)

var fsyncs = metrics.Labelled("pebblekv_fsyncs", "file",
	"Fsyncs of the files of a store in a directory, by the kind of file")

// fsyncsOf is what counts those of a file.
func fsyncsOf(name string) *metrics.Metric {
	if workaround.IsTable(name) {
		return metricTableFsyncs
	}
	return metricOtherFsyncs
}
