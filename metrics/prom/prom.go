// Package prom is a metrics.Sink for Prometheus: it makes collectors of the metrics
// that it is given, which the program registers where it likes.
//
// It registers nothing by itself and serves no page. A program links Prometheus's client
// only if it imports this package, or kv/pebblekv: Pebble has metrics of its own in it.
package prom

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
// and allocates nothing once it is made, but in Learn.
type Sink struct {
	known      atomic.Pointer[known]
	learning   sync.Mutex
	first      map[string]*metrics.Metric // of each name
	counters   map[string]*prometheus.CounterVec
	timers     map[string]*prometheus.HistogramVec
	collectors []prometheus.Collector
}

// known are the metrics that have been made. It doesn't change.
type known struct {
	counters map[*metrics.Metric]prometheus.Counter // of a Total in seconds
	timers   map[*metrics.Metric]prometheus.Observer
	keys     map[string]bool // of names and labels
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
	s := &Sink{first: map[string]*metrics.Metric{}, counters: map[string]*prometheus.CounterVec{}, timers: map[string]*prometheus.HistogramVec{}}
	for _, m := range ms {
		if s.first[m.Name] == nil {
			s.first[m.Name] = m
			s.describe(m)
		}
	}
	all := &known{map[*metrics.Metric]prometheus.Counter{}, map[*metrics.Metric]prometheus.Observer{}, map[string]bool{}}
	for _, m := range ms {
		fresh, err := s.add(all, m)
		if err != nil {
			return nil, err
		}
		if !fresh {
			return nil, refused(m)
		}
	}
	s.known.Store(all)
	return s, nil
}

// Learn adds metrics with names that there are, and labels that there aren't yet, such as those of a type that has come. Metrics that there are stay as they are.
func (s *Sink) Learn(ms ...*metrics.Metric) error {
	s.learning.Lock()
	defer s.learning.Unlock()
	before := s.known.Load()
	all := &known{maps.Clone(before.counters), maps.Clone(before.timers), maps.Clone(before.keys)}
	for _, m := range ms {
		if _, err := s.add(all, m); err != nil {
			return err
		}
	}
	s.known.Store(all)
	return nil
}

// add makes a metric, and says whether its labels are new.
func (s *Sink) add(to *known, m *metrics.Metric) (fresh bool, err error) {
	f := s.first[m.Name]
	if f == nil {
		return false, refused(m)
	}
	names, values := labels(m)
	if first, _ := labels(f); m.Kind != f.Kind || m.Help != f.Help || !slices.Equal(names, first) {
		return false, refused(m)
	}
	key := fmt.Sprintf("%s%q", m.Name, values)
	fresh, to.keys[key] = !to.keys[key], true
	if m.Kind == metrics.Timer {
		to.timers[m] = s.timers[m.Name].WithLabelValues(values...)
	} else {
		to.counters[m] = s.counters[m.Name].WithLabelValues(values...)
	}
	return fresh, nil
}

func refused(m *metrics.Metric) error {
	names, values := labels(m)
	return fmt.Errorf("prom: metric %s %q=%q doesn't go with the others of its name", m.Name, names, values)
}

// describe makes the collector of a name.
func (s *Sink) describe(m *metrics.Metric) {
	names, _ := labels(m)
	if m.Kind == metrics.Timer {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: m.Name + "_seconds", Help: m.Help, Buckets: buckets}, names)
		s.timers[m.Name] = v
		s.collectors = append(s.collectors, v)
		return
	}
	unit := ""
	if m.Kind == metrics.Total {
		unit = "_seconds"
	}
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: m.Name + unit + "_total", Help: m.Help}, names)
	s.counters[m.Name] = v
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
	if c := s.known.Load().counters[m]; c != nil && m.Kind == metrics.Counter && n > 0 {
		c.Add(float64(n))
	}
}

// Observe implements metrics.Sink.
func (s *Sink) Observe(m *metrics.Metric, d time.Duration) {
	all := s.known.Load()
	if t := all.timers[m]; t != nil {
		t.Observe(d.Seconds())
	} else if c := s.known.Load().counters[m]; c != nil && m.Kind == metrics.Total && d > 0 {
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
