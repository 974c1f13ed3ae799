package host

import (
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Host with types of these names tells Options.Metrics, for a Sink that wants to know
// beforehand. The packages that it uses have their own.
func Metrics(types ...string) []*metrics.Metric {
	all := []*metrics.Metric{
		metricSyncs, metricTurnTime,
		metricWoken, metricSlept, metricLost, metricDestroyed, metricEvicted, metricCrowded, metricAlarms, metricWakeTime,
		metricSent, metricRefused, metricArrived, metricRepeated, metricRetried, metricUndeliverable,
	}
	for _, name := range types {
		all = append(all, metricsOf(name).all()...)
	}
	return all
}

var (
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

// kindMetrics are the metrics of a type.
type kindMetrics struct{ turns, failed, awake, written, rows *metrics.Metric }

func (k *kindMetrics) all() []*metrics.Metric {
	return []*metrics.Metric{k.turns, k.failed, k.awake, k.written, k.rows}
}

// toldBy returns a function that tells m what actors of the type have used besides turns; nil if m has nowhere to tell it.
func (k *kindMetrics) toldBy(m metrics.Meter) func(*actorstore.Usage) {
	if m.To == nil {
		return nil
	}
	return func(more *actorstore.Usage) {
		m.Count(k.awake, more.Awake.Milliseconds())
		m.Count(k.written, more.Written)
		m.Count(k.rows, more.Rows)
	}
}

// kindsMetrics are those of types by their names, of which a program has a few.
var kindsMetrics sync.Map

// metricsOf returns the metrics of the type of that name, the same ones for each call.
func metricsOf(name string) *kindMetrics {
	of, _ := kindsMetrics.LoadOrStore(name, &kindMetrics{
		typeTurns(name), typeFailed(name), typeAwake(name), typeWritten(name), typeRows(name),
	})
	return of.(*kindMetrics)
}

var (
	typeTurns   = metrics.Labelled("host_turns", "type", "Turns that were run")
	typeFailed  = metrics.Labelled("host_turns_failed", "type", "Turns that did not land")
	typeAwake   = metrics.Labelled("host_awake_milliseconds", "type", "How long actors were in memory, all of them together")
	typeWritten = metrics.Labelled("host_written_bytes", "type", "Bytes of keys and values that the commits of actors gave to the engine")
	typeRows    = metrics.Labelled("host_rows_read", "type", "Rows that statements of SQL of actors have read")
)
