package front

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Front tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricCalls, metricFailed, metricRefused, metricEvents,
		metricOpened, metricResumed, metricClosed, metricSlow, metricSilent,
	}
}

var (
	metricCalls   = counter("front_calls", "Calls of actions, over HTTP and sockets")
	metricFailed  = counter("front_calls_failed", "Calls that were answered with an error")
	metricRefused = counter("front_refused", "Requests without a token, or for another host or origin")
	metricEvents  = counter("front_events", "Events that were written to sockets")

	metricOpened  = sockets("opened")
	metricResumed = sockets("resumed")
	metricClosed  = sockets("closed")
	metricSlow    = sockets("too slow")
	metricSilent  = sockets("silent")
)

func counter(name, help string) *metrics.Metric { return &metrics.Metric{Name: name, Help: help} }

func sockets(what string) *metrics.Metric {
	return &metrics.Metric{Name: "front_sockets", Label: "what", Value: what, Help: "Sockets, by what happened to them"}
}

func (f *Front) count(m *metrics.Metric, n int64) {
	if f.opts.Metrics != nil {
		f.opts.Metrics.Add(m, n)
	}
}
