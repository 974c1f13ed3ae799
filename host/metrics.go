package host

import (
	"cmp"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
)

// metricsOfAll are those that aren't of a type.
func metricsOfAll() []*metrics.Metric {
	return []*metrics.Metric{
		metricSyncs, metricForwarded,
		metricWoken, metricSlept, metricLost, metricDestroyed, metricEvicted, metricCrowded, metricAlarms, metricWakeTime,
		metricPermits, metricWaited,
		metricSent, metricRefused, metricArrived, metricRepeated, metricRetried, metricUndeliverable,
	}
}

var (
	metricSyncs = metrics.NewCounter("host_syncs", "Waits for stable storage, each for all turns that were made meanwhile")

	metricForwarded = metrics.NewCounter("host_forwarded", "Requests that were sent to another host, which has the actor")

	metricWoken     = actors("woken")
	metricSlept     = actors("slept")
	metricLost      = actors("lost")
	metricDestroyed = actors("destroyed")
	metricEvicted   = actors("evicted")
	metricCrowded   = actors("waited_for_room")
	metricAlarms    = actors("woken_by_alarm")
	metricWakeTime  = metrics.NewTimer("host_wake", "How long waking took")

	metricPermits = permitsThat("given")
	metricWaited  = permitsThat("waited_for")

	metricSent          = messages("sent")
	metricRefused       = messages("not_allowed")
	metricArrived       = messages("arrived")
	metricRepeated      = messages("arrived_again")
	metricRetried       = messages("not_taken")
	metricUndeliverable = messages("dropped")
)

var actors = metrics.Labelled("host_actors", "what",
	"Actors, by what happened to them")

var permitsThat = metrics.Labelled("host_permits", "what",
	"Permits of limits, by what happened to their claims")

var messages = metrics.Labelled("host_messages", "what",
	"Messages from one actor to another, by what happened to them")

// kindMetrics are the metrics of a type.
type kindMetrics struct {
	awake, written, rows *metrics.Metric
	actions              map[string]*turnMetrics // by the name of the action
	turns                map[string]*turnMetrics // of turns that aren't actions, by their kind
}

// turnMetrics are those of the turns of one kind.
type turnMetrics struct{ time, failed *metrics.Metric }

// Kinds of turns: values of the label turn.
const (
	turnAction  = "action"  // with the action's name in the label action
	turnConnect = "connect" // a connection is made, ended, or made again, or listens to an event
	turnMessage = "message" // of the queue
	turnUpdate  = "update"  // of Turn and Together
	turnOther   = "other"   // the beginning and end of an actor, letters, actions that aren't declared
)

// turnKinds are the kinds of turns by the names of their spans, but for actions and turnOther.
var turnKinds = map[string]string{
	spanOnConnect: turnConnect, spanOnDisconnect: turnConnect, spanReconnect: turnConnect, spanSubscribe: turnConnect,
	spanMessage: turnMessage, spanReturn: turnMessage, spanExtend: turnMessage,
	spanTurn: turnUpdate, spanTogether: turnUpdate,
}

// of returns the metrics of a turn with that span; action is "" for none.
func (k *kindMetrics) of(span, action string) *turnMetrics {
	if m := k.actions[action]; m != nil {
		return m
	}
	return k.turns[cmp.Or(turnKinds[span], turnOther)]
}

func (k *kindMetrics) all() []*metrics.Metric {
	all := []*metrics.Metric{k.awake, k.written, k.rows}
	for _, of := range []map[string]*turnMetrics{k.actions, k.turns} {
		for _, m := range of {
			all = append(all, m.time, m.failed)
		}
	}
	return all
}

// toldBy returns a function that tells m what actors of the type have used besides turns; nil if m has nowhere to tell it.
func (k *kindMetrics) toldBy(m metrics.Meter) func(*actorstore.Usage) {
	if m.To == nil {
		return nil
	}
	return func(more *actorstore.Usage) {
		m.Observe(k.awake, more.Awake)
		m.Count(k.written, more.Written)
		m.Count(k.rows, more.Rows)
	}
}

// metricsOf returns the metrics of a version of a type with these actions. Those of types that are called alike are the same ones.
func metricsOf(name, version string, actions []string) *kindMetrics {
	k := &kindMetrics{
		awake: theMetric(typeAwake(name)), written: theMetric(typeWritten(name)), rows: theMetric(typeRows(name)),
		actions: map[string]*turnMetrics{}, turns: map[string]*turnMetrics{},
	}
	of := func(turn, action string) *turnMetrics {
		labels := []metrics.Label{{Name: "type", Value: name}, {Name: "turn", Value: turn}, {Name: "action", Value: action}}
		return &turnMetrics{
			time:   theMetric(metrics.NewTimer("host_turn", "How long turns took, without the wait for stable storage", labels...)),
			failed: theMetric(metrics.NewCounter("host_turns_failed", "Turns that did not land", append(labels, metrics.Label{Name: "version", Value: version})...)),
		}
	}
	for _, action := range actions {
		k.actions[action] = of(turnAction, action)
	}
	for _, turn := range []string{turnConnect, turnMessage, turnUpdate, turnOther} {
		k.turns[turn] = of(turn, "")
	}
	return k
}

// theMetrics are the metrics of types by their names and labels, of which a program has as many as it has types and actions.
var theMetrics sync.Map

// theMetric returns the one metric of the program that has the name and labels of m.
func theMetric(m *metrics.Metric) *metrics.Metric {
	the, _ := theMetrics.LoadOrStore(m.String(), m)
	return the.(*metrics.Metric)
}

var (
	typeWritten = metrics.Labelled("host_written_bytes", "type", "Bytes of keys and values that the commits of actors gave to the engine")
	typeRows    = metrics.Labelled("host_rows_read", "type", "Rows that statements of SQL of actors have read")
)

func typeAwake(name string) *metrics.Metric {
	return &metrics.Metric{Kind: metrics.Total, Name: "host_awake", Help: "How long actors were in memory, all of them together", Labels: []metrics.Label{{Name: "type", Value: name}}}
}
