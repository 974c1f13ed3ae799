package traces

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// A guard is a lock that tells the program what happened when it is free again. It is held for
// memory alone: never while the store is asked, nor during a commit, whose participants take it.
type guard struct {
	mu    sync.Mutex
	tell  []func() // what is called when mu is free  +checklocks:mu
	meter metrics.Meter
}

// later calls fn when g.mu is free. Loggers and sinks are the program's, and may ask
// for Stats, or record; those that wait hear of something when these have.
//
// +checklocks:g.mu
func (g *guard) later(fn func()) { g.tell = append(g.tell, fn) }

// unlock gives g.mu back, and then tells the program what has happened meanwhile.
//
// +checklocksrelease:g.mu
func (g *guard) unlock() {
	tell := g.tell
	g.tell = nil
	g.mu.Unlock()
	for _, fn := range tell {
		fn()
	}
}

// +checklocks:g.mu
func (g *guard) count(m *metrics.Metric, n int64) {
	if g.meter.To != nil && n > 0 {
		g.later(func() { g.meter.Count(m, n) })
	}
}

// +checklocks:g.mu
func (g *guard) observe(m *metrics.Metric, d time.Duration) {
	if g.meter.To != nil {
		g.later(func() { g.meter.Observe(m, d) })
	}
}
