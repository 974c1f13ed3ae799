package host

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Host tells Options.Metrics, for a Sink that wants to know
// beforehand. The packages that it uses have their own.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricTurns, metricFailed, metricSyncs, metricTurnTime,
		metricWoken, metricSlept, metricLost, metricDestroyed, metricEvicted, metricCrowded, metricAlarms, metricWakeTime,
		metricSent, metricArrived, metricRepeated, metricRetried, metricUndeliverable,
	}
}

var (
	metricTurns    = counter("host_turns", "Turns that were run")
	metricFailed   = counter("host_turns_failed", "Turns that did not land")
	metricSyncs    = counter("host_syncs", "Waits for stable storage, each for all turns that were made meanwhile")
	metricTurnTime = timer("host_turn", "How long turns took, without the wait for stable storage")

	metricWoken     = actors("woken")
	metricSlept     = actors("slept")
	metricLost      = actors("lost")
	metricDestroyed = actors("destroyed")
	metricEvicted   = actors("evicted")
	metricCrowded   = actors("waited for room")
	metricAlarms    = actors("woken by an alarm")
	metricWakeTime  = timer("host_wake", "How long waking took")

	metricSent          = messages("sent")
	metricArrived       = messages("arrived")
	metricRepeated      = messages("arrived again")
	metricRetried       = messages("not taken")
	metricUndeliverable = messages("dropped")
)

func counter(name, help string) *metrics.Metric { return &metrics.Metric{Name: name, Help: help} }

func timer(name, help string) *metrics.Metric {
	return &metrics.Metric{Kind: metrics.Timer, Name: name, Help: help}
}

func actors(what string) *metrics.Metric {
	return &metrics.Metric{Name: "host_actors", Label: "what", Value: what, Help: "Actors, by what happened to them"}
}

func messages(what string) *metrics.Metric {
	return &metrics.Metric{Name: "host_messages", Label: "what", Value: what, Help: "Messages from one actor to another, by what happened to them"}
}

func (h *Host) count(m *metrics.Metric, n int64) {
	if h.meter != nil {
		h.meter.Add(m, n)
	}
}

func (h *Host) observe(m *metrics.Metric, d time.Duration) {
	if h.meter != nil {
		h.meter.Observe(m, max(d, 0))
	}
}
