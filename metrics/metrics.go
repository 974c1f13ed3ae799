// Package metrics is how the packages of Greenroom tell a program how often something
// happened and how long it took: they describe their metrics, and hand what they count
// to a Sink that the program gives them. Package metrics/prom is one for Prometheus.
//
// It has no registry, keeps no numbers, and starts nothing: without a Sink nothing is
// counted for one.
//
// Each package has its metrics in variables, all of them in the result of its function
// Metrics, and a Meter in whatever counts.
package metrics

import (
	"fmt"
	"strings"
	"time"
)

// A Kind says what a metric is made of.
type Kind uint8

const (
	// Counter: a number that only grows.
	Counter Kind = iota
	// Timer: durations, of which it matters how long each was.
	Timer
	// Total: durations, of which only the sum matters.
	Total
)

// A Metric describes one thing that is counted or timed. It is compared by its
// address: packages have one variable for each, and never change it.
type Metric struct {
	Kind Kind
	// Name is lower-case words with underscores, the package's first, without a unit:
	// "vfs_commits". Metrics of one name differ in the values of their labels, and agree in all else.
	Name string
	// Help is a sentence without its full stop.
	Help string
	// Labels tell metrics of one name apart; a metric of its own has none.
	Labels []Label
}

// A Label is one of the things in which metrics of one name differ, as "path" and "journal". Names and values are lower-case words with underscores, but for
// values that a program has chosen, such as the names of its actions.
type Label struct{ Name, Value string }

// String returns the name with the labels, as in vfs_commits{path="journal"}.
func (m *Metric) String() string {
	if len(m.Labels) == 0 {
		return m.Name
	}
	var b strings.Builder
	for i, l := range m.Labels {
		fmt.Fprintf(&b, "%c%s=%q", "{,"[min(i, 1)], l.Name, l.Value)
	}
	return m.Name + b.String() + "}"
}

// A Sink takes what is counted. Its methods are called from many goroutines, some of
// them holding locks: they must return at once, and not call what calls them. A metric
// that a Sink doesn't know it ignores.
type Sink interface {
	// Add adds n, at least 1, to a Counter.
	Add(m *Metric, n int64)
	// Observe records one duration of a Timer, or adds it to a Total.
	Observe(m *Metric, d time.Duration)
}

// A Meter tells To, unless that is nil: what counts something has a Meter in the place of the
// Sink of its options, and needn't ask whether there is one. The zero Meter tells nothing, and
// costs no more than that question. It may be copied, and used by many goroutines at once if
// To may be.
type Meter struct{ To Sink }

// Count tells of n more of a Counter, if it is more than none: a Sink never hears of 0, nor of
// less.
func (m Meter) Count(metric *Metric, n int64) {
	if m.To != nil && n > 0 {
		m.To.Add(metric, n)
	}
}

// Observe tells of one duration of a Timer or a Total. One below 0, which a clock makes that was set back,
// is 0.
func (m Meter) Observe(metric *Metric, d time.Duration) {
	if m.To != nil {
		m.To.Observe(metric, max(d, 0))
	}
}

// NewCounter returns a Counter, for a variable of a package. Name, help and labels, which it keeps, are
// as Metric says; they are not checked, and no two metrics should have the same name and labels.
func NewCounter(name, help string, labels ...Label) *Metric {
	return &Metric{Name: name, Help: help, Labels: labels}
}

// NewTimer returns a Timer, as NewCounter returns a Counter. It is told a
// time.Duration: the Sink chooses the unit to show.
func NewTimer(name, help string, labels ...Label) *Metric {
	return &Metric{Kind: Timer, Name: name, Help: help, Labels: labels}
}

// Labelled returns a function that makes the Counters of one name: one for each value of the
// label, such as "journal" and "log" of the label "path". Every call of the function returns a
// new Metric, so a package calls it once for each value, in its variables. Values never come
// from what a user does: a server that gathers metrics keeps a time series for each.
func Labelled(name, label, help string) func(value string) *Metric {
	return func(value string) *Metric { return &Metric{Name: name, Labels: []Label{{label, value}}, Help: help} }
}
