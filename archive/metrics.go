package archive

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Writer tells Options.Metrics.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{metricObjects, metricBytes, metricErrors, metricLag, metricBases}
}

var (
	metricObjects = metrics.NewCounter("archive_objects", "Objects that backups have stored")
	metricBytes   = metrics.NewCounter("archive_bytes", "Bytes of the objects that backups have stored")
	metricErrors  = metrics.NewCounter("archive_errors", "Errors of the bucket that backups have met")
	metricBases   = metrics.NewCounter("archive_bases", "Bases that backups have stored")
	metricLag     = metrics.NewTimer("archive_lag", "Time from a commit until it is in the bucket, of the first commit of each segment")
)
