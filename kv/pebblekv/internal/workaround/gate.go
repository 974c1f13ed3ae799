package workaround

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
	// Level0Tables is the number of tables from which on level 0 of a store on a small disk is compacted, for
	// Pebble's options. With fewer no writer waits for that.
	Level0Tables = 4
)

// A Gate makes writers wait while Pebble is behind with its background work.
//
// Pebble has such a gate of its own, which these options keep from ever closing
// (see pebbleOptions): it waits inside the commit pipeline, with locks held,
// where neither a context nor the closing or poisoning of the store can end the
// wait, and where it waits forever when background work fails over and over.
// This one waits before any lock is taken, and gives up when waiting is in vain.
// It looks at Pebble's state when Pebble says that it changed, so it may close a
// little late; it bounds memory, it doesn't promise a number.
type Gate struct {
	fault   *Fault
	closing <-chan struct{}
	// maxUnflushed is maxMemtables in bytes.
	maxUnflushed uint64
	// maxLevel0 bounds the bytes of level 0, 0 for no bound.
	maxLevel0 int64
	// nudge tells the watcher that the state may have changed.
	nudge chan struct{}
	// watcher runs watch.
	watcher sync.WaitGroup

	// behind is atomic for the writers that needn't wait; it changes under mu.
	behind atomic.Bool

	mu sync.Mutex
	// changed is closed, and made anew, when behind or failing change.
	changed chan struct{} // +checklocks:mu
	// failing is the error of the newest background work, or nil.
	failing error // +checklocks:mu
}

// NewGate returns an open Gate. closing is closed when the store begins to close, memtable the size of a memtable, and maxLevel0 what
// level 0 may have before writers wait, in bytes, 0 for no bound.
func NewGate(f *Fault, closing <-chan struct{}, memtable, maxLevel0 int64) *Gate {
	return &Gate{
		maxLevel0:    maxLevel0,
		maxUnflushed: maxMemtables * uint64(memtable),
		fault:        f,
		closing:      closing,
		nudge:        make(chan struct{}, 1),
		changed:      make(chan struct{}),
	}
}

// Wait returns nil when a writer may go on.
func (g *Gate) Wait(ctx context.Context) error {
	for g.behind.Load() {
		g.mu.Lock()
		behind, failing, changed := g.behind.Load(), g.failing, g.changed
		g.mu.Unlock()
		if !behind {
			break
		}
		if failing != nil {
			return Full(fmt.Errorf("pebblekv: writing is held up by a failing flush or compaction: %w", failing))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-g.closing:
			return kv.ErrClosed
		case <-g.fault.done:
			return g.fault.Get()
		}
	}
	return nil
}

// worked notes how a flush or compaction ended. It is called with Pebble's
// mutex held.
func (g *Gate) worked(err error) {
	g.mu.Lock()
	if err != nil || g.failing != nil {
		g.failing = err
		g.signal()
	}
	g.mu.Unlock()
	g.Poke()
}

// full closes the gate since Pebble waits for room on the disk, until that flush or compaction has ended. The
// watcher can't look meanwhile.
func (g *Gate) full(err error) {
	g.worked(err)
	g.Shut()
}

// Poke makes the watcher look again; it never blocks.
func (g *Gate) Poke() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}

// Shut closes the gate until the watcher has looked, which must be poked then: it may be late.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.behind.Swap(true) {
		g.signal()
	}
}

// +checklocks:g.mu
func (g *Gate) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// State returns a channel that is closed when the error of the newest background work changes, and that
// error or nil.
func (g *Gate) State() (changed <-chan struct{}, failing error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed, g.failing
}

// Watch opens and closes the gate, on a goroutine of its own, until the store closes, by what Pebble says and whether the
// tables lack too much of the log. It runs on its own goroutine because Pebble's events come with Pebble's
// mutex held, which Metrics takes.
func (g *Gate) Watch(db *pebble.DB, lacking func() bool) {
	g.watcher.Go(func() { g.watch(db, lacking) })
}

// Unwatched returns when nothing watches any more, which uses Pebble. The store has begun to close.
func (g *Gate) Unwatched() { g.watcher.Wait() }

// watch is the goroutine of Watch.
func (g *Gate) watch(db *pebble.DB, lacking func() bool) {
	for {
		select {
		case <-g.nudge:
		case <-g.closing:
			return
		}
		m := db.Metrics()
		behind := lacking() || m.MemTable.Size >= g.maxUnflushed || m.Levels[0].Sublevels >= maxSublevels ||
			g.maxLevel0 > 0 && m.Levels[0].TablesSize >= g.maxLevel0 && m.Levels[0].TablesCount >= Level0Tables
		g.mu.Lock()
		if g.behind.Swap(behind) != behind {
			g.signal()
		}
		g.mu.Unlock()
	}
}
