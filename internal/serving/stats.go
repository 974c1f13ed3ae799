package serving

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A folderStats is a collector of what a store in a folder takes, asked for once for each time that a server gathers metrics.
type folderStats struct{ db *pebblekv.DB }

// A folderMetric is one of the metrics that it collects.
type folderMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *pebblekv.Stats) int64
}

var folderMetrics = []folderMetric{
	{folderBytes("tables"), prometheus.GaugeValue, func(s *pebblekv.Stats) int64 { return s.Tables }},
	{folderBytes("log"), prometheus.GaugeValue, func(s *pebblekv.Stats) int64 { return s.Log }},
	{folderBytes("memory"), prometheus.GaugeValue, func(s *pebblekv.Stats) int64 { return s.Memtables }},
	{folderDesc("compactions_running", "Compactions that are under way", nil), prometheus.GaugeValue, func(s *pebblekv.Stats) int64 { return s.Compacting }},
	{folderDesc("compaction_debt_bytes", "About so many bytes are to be compacted still", nil), prometheus.GaugeValue, func(s *pebblekv.Stats) int64 { return s.Debt }},
	{folderDesc("compactions_total", "Compactions that have ended", nil), prometheus.CounterValue, func(s *pebblekv.Stats) int64 { return s.Compactions }},
	{folderDesc("flushes_total", "Flushes of memory to tables that have ended", nil), prometheus.CounterValue, func(s *pebblekv.Stats) int64 { return s.Flushes }},
}

func folderBytes(part string) *prometheus.Desc {
	return folderDesc("bytes", "Bytes that a store in a folder takes, by where: its tables, the files of its log, and memory that isn't in tables yet", prometheus.Labels{"part": part})
}

func folderDesc(name, help string, labels prometheus.Labels) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("greenroom", "store", name), help, nil, labels)
}

// Describe implements prometheus.Collector.
func (f folderStats) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range folderMetrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (f folderStats) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := f.db.Stats(ctx)
	if err != nil {
		return // the store is being closed, or its folder can't be listed: /healthz tells of a disk that fails
	}
	for _, m := range folderMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.of(&s)))
	}
}
