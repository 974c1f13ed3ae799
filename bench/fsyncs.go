package main

import (
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// fsyncsName is what package pebblekv counts fsyncs under, whatever the file.
const fsyncsName = "pebblekv_fsyncs"

// An fsyncMeter counts the fsyncs of the engines that one side opens in this process. It is
// the metrics.Sink of those that can tell; where there is none the number isn't known.
type fsyncMeter struct {
	engines, n atomic.Int64
	during     func() // a test's: is called as a part of every fsync
}

var _ metrics.Sink = (*fsyncMeter)(nil)

// sink is the meter for an engine that will tell it, nil if nobody measures.
func (m *fsyncMeter) sink() metrics.Sink {
	if m == nil {
		return nil
	}
	m.engines.Add(1)
	return m
}

// Add implements metrics.Sink.
func (m *fsyncMeter) Add(of *metrics.Metric, n int64) {
	if of.Name == fsyncsName {
		m.n.Add(n)
		if m.during != nil {
			m.during()
		}
	}
}

// Observe implements metrics.Sink.
func (m *fsyncMeter) Observe(*metrics.Metric, time.Duration) {}

// count is the number of fsyncs so far.
func (m *fsyncMeter) count() measured {
	if m == nil || m.engines.Load() == 0 {
		return measured{}
	}
	return measured{m.n.Load(), true}
}

// A measured is a number that some sides can't tell.
type measured struct {
	n     int64
	known bool
}

// since is what came since before, which may not have been known yet.
func (m measured) since(before measured) measured { return measured{m.n - before.n, m.known} }

// and adds another part of the same.
func (m measured) and(other measured) measured {
	return measured{m.n + other.n, m.known || other.known}
}
