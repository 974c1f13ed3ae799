package host

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Host tells Options.Metrics, for a Sink that wants to know
// beforehand. The packages that it uses have their own.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricTurns, metricFailed, metricSyncs, metricTurnTime,
		metricWoken, metricSlept, metricLost, metricDestroyed, metricEvicted, metricCrowded, metricAlarms, metricWakeTime,
		metricSent, metricRefused, metricArrived, metricRepeated, metricRetried, metricUndeliverable,
	}
}

var (
	metricTurns    = metrics.NewCounter("host_turns", "Turns that were run")
	metricFailed   = metrics.NewCounter("host_turns_failed", "Turns that did not land")
	metricSyncs    = metrics.NewCounter("host_syncs", "Waits for stable storage, each for all turns that were made meanwhile")
	metricTurnTime = metrics.NewTimer("host_turn", "How long turns took, without the wait for stable storage")

	metricWoken     = actors("woken")
	metricSlept     = actors("slept")
	metricLost      = actors("lost")
	metricDestroyed = actors("destroyed")
	metricEvicted   = actors("evicted")
	metricCrowded   = actors("waited for room")
	metricAlarms    = actors("woken by an alarm")
	metricWakeTime  = metrics.NewTimer("host_wake", "How long waking took")

	metricSent          = messages("sent")
	metricRefused       = messages("not allowed")
	metricArrived       = messages("arrived")
	metricRepeated      = messages("arrived again")
	metricRetried       = messages("not taken")
	metricUndeliverable = messages("dropped")
)

var actors = metrics.Labelled("host_actors", "what",
	"Actors, by what happened to them")

var messages = metrics.Labelled("host_messages", "what",
	"Messages from one actor to another, by what happened to them")
