package conn

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Set tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricCreated, metricDisconnected, metricSaved, metricQuarantined,
	}
}

var (
	metricCreated      = metrics.NewCounter("conn_created", "Connections that were made")
	metricDisconnected = metrics.NewCounter("conn_disconnected", "Connections that were disconnected")
	metricSaved        = metrics.NewCounter("conn_saved", "Records of connections that were stored")
	metricQuarantined  = metrics.NewCounter("conn_quarantined", "Stored records that can't be read")
)
