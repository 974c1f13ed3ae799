package pebblekv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// Writers wait when flushing and compacting fall behind by more than this.
const (
	// maxMemtables bounds the memory of unflushed data, in sizes of a memtable
	// (not in their number: the first ones of a store are small, and Pebble lets
	// those wait for each other). Pebble's own default is 2: then every writer
	// stops while a full memtable is being flushed.
	maxMemtables = 4
	// maxSublevels bounds how many tables a read may have to look at in level 0.
	// It is Pebble's own default.
	maxSublevels = 12
)

// A gate makes writers wait while Pebble is behind with its background work.
//
// Pebble has such a gate of its own, which these options keep from ever closing
// (see pebbleOptions): it waits inside the commit pipeline, with locks held,
// where neither a context nor the closing or poisoning of the store can end the
// wait, and where it waits forever when background work fails over and over.
// This one waits before any lock is taken, and gives up when there is no hope.
// It looks at Pebble's state when Pebble says that it changed, so it may close a
// little late; it bounds memory, it doesn't promise a number.
type gate struct {
	fault   *fault
	closing <-chan struct{}
	// maxUnflushed is maxMemtables in bytes.
	maxUnflushed uint64
	// nudge tells the watcher that the state may have changed.
	nudge chan struct{}
	// gone is closed when the watcher has ended.
	gone chan struct{}

	// behind is atomic for the writers that needn't wait; it changes under mu.
	behind atomic.Bool

	mu sync.Mutex
	// changed is closed, and made anew, when behind or failing change.
	changed chan struct{} // +checklocks:mu
	// failing is the error of the newest background work, or nil.
	failing error // +checklocks:mu
}

func newGate(f *fault, closing <-chan struct{}, memtable int64) *gate {
	return &gate{
		maxUnflushed: maxMemtables * uint64(memtable),
		fault:        f,
		closing:      closing,
		nudge:        make(chan struct{}, 1),
		gone:         make(chan struct{}),
		changed:      make(chan struct{}),
	}
}

// wait returns nil when a writer may go on.
func (g *gate) wait(ctx context.Context) error {
	for g.behind.Load() {
		g.mu.Lock()
		behind, failing, changed := g.behind.Load(), g.failing, g.changed
		g.mu.Unlock()
		if !behind {
			break
		}
		if failing != nil {
			return full(fmt.Errorf("pebblekv: writing is held up by a failing flush or compaction: %w", failing))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-g.closing:
			return kv.ErrClosed
		case <-g.fault.done:
			return g.fault.get()
		}
	}
	return nil
}

// worked notes how a flush or compaction ended. It is called with Pebble's
// mutex held.
func (g *gate) worked(err error) {
	g.mu.Lock()
	if err != nil || g.failing != nil {
		g.failing = err
		g.signal()
	}
	g.mu.Unlock()
	g.poke()
}

// full closes the gate since Pebble waits for room on the disk, until that flush or compaction has ended. The
// watcher can't look meanwhile.
func (g *gate) full(err error) {
	g.worked(err)
	g.shut()
}

// poke makes the watcher look again; it never blocks.
func (g *gate) poke() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}

// shut closes the gate until the watcher has looked, which has to be poked then: it may be late.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.behind.Swap(true) {
		g.signal()
	}
}

// +checklocks:g.mu
func (g *gate) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// state returns a channel that is closed when the error of the newest background work changes, and that
// error or nil.
func (g *gate) state() (changed <-chan struct{}, failing error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed, g.failing
}

// watch opens and closes the gate until the store closes, by what Pebble says and whether the
// tables lack too much of the log. It runs on its own goroutine because Pebble's events come with Pebble's
// mutex held, which Metrics takes.
func (g *gate) watch(db *pebble.DB, lacking func() bool) {
	defer close(g.gone)
	for {
		select {
		case <-g.nudge:
		case <-g.closing:
			return
		}
		m := db.Metrics()
		behind := lacking() || m.MemTable.Size >= g.maxUnflushed || m.Levels[0].Sublevels >= maxSublevels
		g.mu.Lock()
		if g.behind.Swap(behind) != behind {
			g.signal()
		}
		g.mu.Unlock()
	}
}
