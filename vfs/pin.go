package vfs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A pin is an engine snapshot that any number of reads share. A view that lets go of it doesn't
// wait for reads under way: the last read closes the snapshot, which must not be closed under a
// read.
type pin struct {
	chunked.Snapshot
	since time.Time
	users atomic.Int64 // reads under way, and one for the view until it lets go
}

func newPin(s chunked.Snapshot) *pin {
	p := &pin{Snapshot: s, since: time.Now()}
	p.users.Store(1)
	return p
}

// enter begins a read. It returns false when the view has let go and no read is left.
func (p *pin) enter() bool {
	for {
		n := p.users.Load()
		if n == 0 {
			return false
		}
		if p.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a read, or the view's hold.
func (db *states) leave(p *pin) {
	if p.users.Add(-1) > 0 {
		return
	}
	if err := p.Close(); err != nil {
		db.log.Warn("vfs: closing a snapshot", "database", db.name, "error", err)
	}
}

// aging is what bounds the snapshots of a database. A view that was replaced and is
// still held is outdated: it expires after a time, and when there are too many. The
// current view never does, but its snapshot may be old; it is let go of after the same
// time, and made again when it is next needed: as long as nothing is written, the newest
// state is the same. So an engine snapshot lives for twice the age at most, the
// writer's excepted.
//
// The timer runs only while there is something to wait for.
type aging struct {
	outdated []*view // in the order in which they were replaced
	timer    *time.Timer
	armed    bool
}

// outdate begins the time that v has left: others hold it, and it was replaced.
//
// +checklocks:db.mu
func (db *states) outdate(v *view) {
	if v.snap.Load() == nil {
		return // it isn't read: in WAL mode the log is what pins a state
	}
	v.replaced = time.Now()
	db.outdated = append(db.outdated, v)
	if most := db.opts.MaxSnapshots; most > 0 && len(db.outdated)+1 > most { // the current one is one
		db.expire(db.outdated[0], fmt.Errorf("%w: at most %d states are kept", ErrSnapshotTooOld, most))
	}
	db.watch()
}

// forget removes v, which no connection holds any more, from the outdated views.
//
// +checklocks:db.mu
func (db *states) forget(v *view) {
	if i := slices.Index(db.outdated, v); i >= 0 {
		db.outdated = slices.Delete(db.outdated, i, i+1)
	}
}

// expire takes v from the connections that hold it: their next read fails with reason.
//
// +checklocks:db.mu
func (db *states) expire(v *view, reason error) {
	db.forget(v)
	v.gone = reason
	db.unpin(v)
	db.stats.expired.Add(1)
}

// watch schedules tick for when something may be too old. A tick that comes too early schedules the
// next.
//
// +checklocks:db.mu
func (db *states) watch() {
	if db.armed || db.opts.MaxSnapshotAge < 0 {
		return
	}
	db.armed = true
	if db.timer == nil {
		db.timer = time.AfterFunc(db.opts.MaxSnapshotAge, db.tick)
		return
	}
	db.timer.Reset(db.opts.MaxSnapshotAge)
}

// unwatch stops the timer for good.
//
// +checklocks:db.mu
func (db *states) unwatch() {
	db.armed = true
	if db.timer != nil {
		db.timer.Stop()
	}
}

// tick lets go of what is too old.
func (db *states) tick() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.handles == 0 {
		db.armed = false
		return
	}
	age, now := db.opts.MaxSnapshotAge, time.Now()
	for len(db.outdated) > 0 && now.Sub(db.outdated[0].replaced) >= age {
		v := db.outdated[0]
		db.expire(v, fmt.Errorf("%w: it was replaced %v ago, and kept for %v", ErrSnapshotTooOld, now.Sub(v.replaced), age))
	}
	next := age
	if len(db.outdated) > 0 {
		next -= now.Sub(db.outdated[0].replaced)
	}
	// While the store may hold parts of a transaction, the current view can't be made
	// again. Nor is it the writer's to lose.
	p := db.cur.snap.Load()
	if p != nil && !db.dirty {
		if left := age - now.Sub(p.since); left > 0 {
			next = min(next, left)
		} else if db.owner.Load() == nil {
			db.unpin(db.cur)
			p = nil
		}
	}
	db.armed = len(db.outdated) > 0 || p != nil && !db.dirty
	if db.armed {
		db.timer.Reset(next)
	}
}
