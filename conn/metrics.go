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
	metricCreated      = counter("conn_created", "Connections that were made")
	metricDisconnected = counter("conn_disconnected", "Connections that were disconnected")
	metricSaved        = counter("conn_saved", "Records of connections that were stored")
	metricQuarantined  = counter("conn_quarantined", "Stored records that can't be read")
)

func counter(name, help string) *metrics.Metric { return &metrics.Metric{Name: name, Help: help} }

// count adds n to a metric, if anybody wants to know.
func (s *Set) count(m *metrics.Metric, n int) {
	if s.opts.Metrics != nil && n > 0 {
		s.opts.Metrics.Add(m, int64(n))
	}
}
