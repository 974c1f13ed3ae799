// Package prom is a metrics.Sink for Prometheus: it makes collectors of the metrics
// that it is given, which the program registers where it likes.
//
// It registers nothing by itself and serves no page. A program links Prometheus's client
// only if it imports this package, or kv/pebblekv: Pebble has metrics of its own in it.
package prom

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroomdb/greenroom/metrics"
)

// namespace is what all names begin with.
const namespace = "greenroom"

// buckets are the upper bounds of a Timer's histogram in seconds: from what memory
// answers to what a person waits for.
var buckets = prometheus.ExponentialBuckets(20e-6, 4, 11)

// A Sink is a metrics.Sink and a prometheus.Collector. It is safe for concurrent use,
// and allocates nothing once it is made.
type Sink struct {
	counters   map[*metrics.Metric]prometheus.Counter // of a Total in seconds
	timers     map[*metrics.Metric]prometheus.Observer
	collectors []prometheus.Collector
}

var (
	_ metrics.Sink         = (*Sink)(nil)
	_ prometheus.Collector = (*Sink)(nil)
)

// New returns a Sink of ms, such as vfs.Metrics(), all of which begin at zero. A Counter NAME becomes greenroom_NAME_total, a Total greenroom_NAME_seconds_total, and
// a Timer greenroom_NAME_seconds, a histogram.
//
// Metrics of one name that don't agree in kind, help and the names of their labels, and a metric that is there twice, are an error.
func New(ms ...*metrics.Metric) (*Sink, error) {
	s := &Sink{counters: map[*metrics.Metric]prometheus.Counter{}, timers: map[*metrics.Metric]prometheus.Observer{}}
	first := map[string]*metrics.Metric{}
	counters, timers := map[string]*prometheus.CounterVec{}, map[string]*prometheus.HistogramVec{}
	seen := map[string]bool{}
	for _, m := range ms {
		f := first[m.Name]
		if f == nil {
			f, first[m.Name] = m, m
			s.describe(m, counters, timers)
		}
		names, values := labels(m)
		key := fmt.Sprintf("%s%q", m.Name, values)
		if first, _ := labels(f); m.Kind != f.Kind || m.Help != f.Help || !slices.Equal(names, first) || seen[key] {
			return nil, fmt.Errorf("prom: metric %s %q=%q doesn't go with the others of its name", m.Name, names, values)
		}
		seen[key] = true
		if m.Kind == metrics.Timer {
			s.timers[m] = timers[m.Name].WithLabelValues(values...)
		} else {
			s.counters[m] = counters[m.Name].WithLabelValues(values...)
		}
	}
	return s, nil
}

// describe makes the collector of a name.
func (s *Sink) describe(m *metrics.Metric, counters map[string]*prometheus.CounterVec, timers map[string]*prometheus.HistogramVec) {
	names, _ := labels(m)
	if m.Kind == metrics.Timer {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: m.Name + "_seconds", Help: m.Help, Buckets: buckets}, names)
		timers[m.Name] = v
		s.collectors = append(s.collectors, v)
		return
	}
	unit := ""
	if m.Kind == metrics.Total {
		unit = "_seconds"
	}
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: m.Name + unit + "_total", Help: m.Help}, names)
	counters[m.Name] = v
	s.collectors = append(s.collectors, v)
}

// labels returns the names of a metric's labels, and their values.
func labels(m *metrics.Metric) (names, values []string) {
	for _, l := range m.Labels {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	return names, values
}

// Add implements metrics.Sink.
func (s *Sink) Add(m *metrics.Metric, n int64) {
	if c := s.counters[m]; c != nil && m.Kind == metrics.Counter && n > 0 {
		c.Add(float64(n))
	}
}

// Observe implements metrics.Sink.
func (s *Sink) Observe(m *metrics.Metric, d time.Duration) {
	if t := s.timers[m]; t != nil {
		t.Observe(d.Seconds())
	} else if c := s.counters[m]; c != nil && m.Kind == metrics.Total && d > 0 {
		c.Add(d.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (s *Sink) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.collectors {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (s *Sink) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.collectors {
		c.Collect(ch)
	}
}
