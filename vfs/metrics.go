package vfs

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a VFS tells Options.Metrics, for a Sink that wants to know
// beforehand. The counters are those of Stats, of all databases together.
func Metrics() []*metrics.Metric {
	all := []*metrics.Metric{metricFailures, metricWaitTime, metricApplyTime, metricDurableTime}
	for i := range counted {
		all = append(all, counted[i].metric)
	}
	return all
}

var (
	metricFailures    = metrics.NewCounter("vfs_failures", "Databases that began to refuse everything, because their actor has another owner or a write failed")
	metricWaitTime    = metrics.NewTimer("vfs_writer_wait", "How long connections waited in the queue of those that want to write")
	metricApplyTime   = engineTime("applied")
	metricDurableTime = engineTime("durable")
)

func engineTime(wait string) *metrics.Metric {
	return &metrics.Metric{Kind: metrics.Timer, Name: "vfs_engine_commit", Labels: []metrics.Label{{Name: "wait", Value: wait}},
		Help: "How long engine commits took, by what was waited for"}
}

// counted are the counters of Stats that a Sink is told. mostBehind isn't one.
var counted = [...]struct {
	metric *metrics.Metric
	get    func(*Stats) int64
}{
	{commits("atomic"), func(s *Stats) int64 { return s.AtomicCommits }},
	{commits("buffered"), func(s *Stats) int64 { return s.BufferedCommits }},
	{commits("journal"), func(s *Stats) int64 { return s.JournalCommits }},
	{commits("log"), func(s *Stats) int64 { return s.LogCommits }},
	{metrics.NewCounter("vfs_fallbacks", "Transactions that were too large for one atomic commit"),
		func(s *Stats) int64 { return s.Fallbacks }},
	{metrics.NewCounter("vfs_spills", "Parts of transactions that were stored before the commit"),
		func(s *Stats) int64 { return s.Spills }},
	{metrics.NewCounter("vfs_checkpoints", "Checkpoints of a log that were stored"),
		func(s *Stats) int64 { return s.Checkpoints }},
	{metrics.NewCounter("vfs_published", "Committed states that readers were given"),
		func(s *Stats) int64 { return s.Published }},
	{metrics.NewCounter("vfs_snapshots", "Snapshots that states were given, of which actors may share those of the engine"),
		func(s *Stats) int64 { return s.Snapshots }},
	{metrics.NewCounter("vfs_snapshots_expired", "Engine snapshots let go of while a transaction still read them"),
		func(s *Stats) int64 { return s.Expired }},
	{metrics.NewCounter("vfs_page_reads", "Chunks asked of the actor, of which the store's cache may have some on a near engine"),
		func(s *Stats) int64 { return s.PageReads }},
	{metrics.NewCounter("vfs_cache_hits", "Chunks read from the cache of a store on a far engine"),
		func(s *Stats) int64 { return s.CacheHits }},
	{metrics.NewCounter("vfs_prefetches", "Engine reads that brought several chunks at once"),
		func(s *Stats) int64 { return s.Prefetches }},
	{prefetched("read"), func(s *Stats) int64 { return s.Prefetched }},
	{prefetched("used"), func(s *Stats) int64 { return s.PrefetchUsed }},
	{prefetched("wasted"), func(s *Stats) int64 { return s.PrefetchWasted }},
	{metrics.NewCounter("vfs_recoveries", "Journals that were found left behind"),
		func(s *Stats) int64 { return s.Recoveries }},
	{metrics.NewCounter("vfs_connections_idle_closed", "Connections of pools that were closed because they were idle"),
		func(s *Stats) int64 { return s.IdleClosed }},
	{waits("writer"), func(s *Stats) int64 { return s.WriterWaits }},
	{waits("reader"), func(s *Stats) int64 { return s.ReaderWaits }},
	{busy("writer"), func(s *Stats) int64 { return s.BusyWriter }},
	{busy("snapshot"), func(s *Stats) int64 { return s.BusySnapshot }},
}

var commits = metrics.Labelled("vfs_commits", "path",
	"Transactions that were committed, by the way that they took to the engine")

var prefetched = metrics.Labelled("vfs_prefetched_chunks", "became",
	"Chunks that were read ahead of being asked for, and what became of them")

var waits = metrics.Labelled("vfs_waits", "who",
	"Connections that had to wait for their turn")

var busy = metrics.Labelled("vfs_busy", "why",
	"Connections that were told that the database is busy, because of another writer or an old snapshot")

// A meter hands what a database counts to a Sink. A nil one does nothing, which is all
// that a program without a Sink pays for it. The counters themselves are counted in
// any case; they are handed over when a connection ends a transaction (in WAL mode when
// something is stored), so that a page read costs no more with a Sink than without.
type meter struct {
	sink metrics.Sink

	mu   sync.Mutex
	told [len(counted)]int64 // what the sink knows  +checklocks:mu
	now  Stats               // scratch  +checklocks:mu
}

func newMeter(sink metrics.Sink) *meter {
	if sink == nil {
		return nil
	}
	return &meter{sink: sink}
}

// flush tells what was counted since the last time. Of several that come at once one
// does; it may leave something to the next.
func (m *meter) flush(c *counters) {
	if m == nil || !m.mu.TryLock() {
		return
	}
	defer m.mu.Unlock()
	m.now = c.read()
	for i := range counted {
		n := counted[i].get(&m.now)
		if d := n - m.told[i]; d > 0 {
			m.told[i] = n
			m.sink.Add(counted[i].metric, d)
		}
	}
}

// start is when something that observe ends began.
func (m *meter) start() (t time.Time) {
	if m != nil {
		t = time.Now()
	}
	return t
}

// observe records how long it is since start.
func (m *meter) observe(metric *metrics.Metric, start time.Time) {
	if m != nil {
		m.sink.Observe(metric, time.Since(start))
	}
}

// failed counts a database that refuses everything from now on.
func (m *meter) failed() {
	if m != nil {
		m.sink.Add(metricFailures, 1)
	}
}
