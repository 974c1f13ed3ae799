package workaround

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Compactor says when Pebble compacts. It is Pebble's scheduler of compactions.
//
// Why: Pebble begins to compact while a store is being opened, and takes the room that the replay of the log needs. A compaction that
// has found no room begins again at once. The tables that are read count as being compacted all that time, and a
// compaction that only deletes tables, which takes no room, can't have them. So no compaction begins before Start, nor
// for a while after one without room. Compactions that only delete tables don't ask, and go on.
type Compactor struct {
	db     pebble.DBForCompaction // set before any other call of Pebble's
	nudge  chan struct{}
	stop   chan struct{}
	worker sync.WaitGroup

	// mu is taken with Pebble's mutex held.
	mu      sync.Mutex
	open    bool        // between Start and Stop  +checklocks:mu
	running int         // +checklocks:mu
	lacked  int         // so many in succession have found no room  +checklocks:mu
	pause   *time.Timer // no compaction begins before its end; nil for no pause  +checklocks:mu
}

// An errKept is what a compaction gets that would take what is left of the disk. For Pebble it is cancelled, not failed: Pebble avoids the
// tables of one that failed for half a minute, and then waits for something to happen before it looks again.
type errKept struct{}

func (errKept) Error() string { return "pebblekv: what the disk has left is not for compactions" }

// Is reports whether target is the error of a full disk, or of a cancelled compaction.
func (errKept) Is(target error) bool {
	return target == pebble.ErrCancelledCompaction || vfs.IsNoSpaceError(target)
}

// longestPause is how long no compaction begins after many failures for lack of room.
const longestPause = 10 * time.Second

var _ pebble.CompactionScheduler = (*Compactor)(nil)

// NewCompactor returns the Compactor of one store.
func NewCompactor() *Compactor {
	return &Compactor{nudge: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Start says that the store is open.
func (c *Compactor) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
	c.worker.Go(c.work)
	c.poke()
}

// work begins compactions that were refused before.
func (c *Compactor) work() {
	for {
		select {
		case <-c.nudge:
		case <-c.stop:
			return
		}
		for c.take() {
			if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.db.Schedule(c) {
				c.give()
				break
			}
		}
	}
}

// poke has work look again; it never blocks.
func (c *Compactor) poke() {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// take reports whether a compaction may begin, which counts as running then.
func (c *Compactor) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || c.pause != nil || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.running++
	return true
}

// give ends what take began.
func (c *Compactor) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// ended notes how a compaction ended. Pebble's mutex is held. A success, deleting tables too, ends a pause: there may be more room.
func (c *Compactor) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.open: // nothing begins after it
	case vfs.IsNoSpaceError(err):
		c.lacked++
		if c.pause == nil {
			c.pause = time.AfterFunc(min(longestPause, 10*time.Millisecond<<min(c.lacked, 10)), c.resume)
		}
	case err == nil:
		c.unpause()
	}
}

// Retry says that there is more room: it ends a pause.
func (c *Compactor) Retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unpause()
}

// unpause ends a pause before its time.
//
// +checklocks:c.mu
func (c *Compactor) unpause() {
	c.lacked = 0
	if c.pause != nil && c.pause.Stop() {
		c.pause = nil
		c.poke()
	}
}

// resume ends a pause.
func (c *Compactor) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = nil
	c.poke()
}

// Register is called by Pebble while it is opened.
func (c *Compactor) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Stop returns when no compaction begins any more. It comes before the context of a DB.Compact ends: Pebble keeps a compaction that
// waits, although it was cancelled, and panics when it is to begin.
func (c *Compactor) Stop() {
	c.mu.Lock()
	was := c.open
	if c.open = false; c.pause != nil {
		c.pause.Stop()
	}
	c.mu.Unlock()
	if was {
		close(c.stop)
	}
	c.worker.Wait()
}

// Unregister is called by Pebble when it is closed, which nothing of db is called after.
func (c *Compactor) Unregister() { c.Stop() }

// TrySchedule is called by Pebble, with its mutex held, when it wants to compact.
func (c *Compactor) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if c.take() {
		return true, c
	}
	c.poke() // what held it up may have ended meanwhile
	return false, nil
}

// UpdateGetAllowedWithoutPermission is called by Pebble when more compactions may be allowed.
func (c *Compactor) UpdateGetAllowedWithoutPermission() { c.poke() }

// Done is called by Pebble when a compaction has ended.
func (c *Compactor) Done() {
	c.give()
	c.poke()
}

// Started is called by Pebble when a compaction begins.
func (c *Compactor) Started() {}

// MeasureCPU is called by Pebble within a compaction.
func (c *Compactor) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats is called by Pebble within a compaction.
func (c *Compactor) CumulativeStats(pebble.CompactionGrantHandleStats) {}
