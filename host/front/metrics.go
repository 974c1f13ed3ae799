package front

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Front tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricCalls, metricFailed, metricRefused, metricEvents,
		metricOpened, metricLinked, metricResumed, metricClosed, metricSlow, metricSilent,
	}
}

var (
	metricCalls   = metrics.NewCounter("front_calls", "Calls of actions, over HTTP and sockets")
	metricFailed  = metrics.NewCounter("front_calls_failed", "Calls that were answered with an error")
	metricRefused = metrics.NewCounter("front_refused", "Requests without a token, or for another host or origin")
	metricEvents  = metrics.NewCounter("front_events", "Events that were written to sockets")

	metricOpened  = sockets("opened")
	metricLinked  = sockets("linked")
	metricResumed = sockets("resumed")
	metricClosed  = sockets("closed")
	metricSlow    = sockets("too_slow")
	metricSilent  = sockets("silent")
)

var sockets = metrics.Labelled("front_sockets", "what",
	"Sockets, by what happened to them")
