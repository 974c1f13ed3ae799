package vfs

import (
	"sync/atomic"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// In WAL mode SQLite's index says who writes: a lock in it, for which SQLite asks again
// and again. So that writers are served in the order in which they came, they queue up
// for a turn before SQLite asks: at the announcement of a transaction that will write
// (beginHint), before it has read anything. The lock in the index alone still decides.
// A transaction that has read, and then writes, has no turn: it would be outdated when
// it came. Nor has a checkpoint that waits for writers. Who has the turn waits for them.
//
// What go-sqlite3 does with the index's locks can't be seen from here, but that it is
// about to do something (SharedMemory). What it has done is asked of the system then.

// A turns is whose turn it is to write in WAL mode.
type turns struct {
	holder atomic.Pointer[handle] // changed under database.mu
	// wrote says that the holder had the lock: when it hasn't any more it is done.
	wrote bool // +checklocks:database.mu
	// next has the turn, and waits for the lock of one who writes without.
	next *waiter // +checklocks:database.mu
	// waiting says that next is not nil.
	waiting atomic.Bool
}

// Locks of the index, by number.
//
// https://sqlite.org/walformat.html#wal_locks
const (
	indexLocks  = 120 // where they are in its file
	lockWrite   = 0
	lockRead    = 3
	lockReadAll = 5 // how many of lockRead there are
)

// idleAsks is how often in a row a waiter must find that the holder of the turn doesn't
// use it before the turn goes on without him. Almost always the holder is seen to be
// done; but not when it couldn't begin, or was rolled back and goes on reading.
const idleAsks = 4

// takeTurn queues h up, in WAL mode, until it is its turn to write. If its busy handler
// or its context end that, SQLite will find the lock taken.
func (db *database) takeTurn(h *handle) {
	if !canSeeLocks || h.readOnly {
		return
	}
	t := &db.wal.turns
	db.mu.Lock()
	defer db.mu.Unlock()
	if t.holder.Load() == h && t.wrote {
		db.nextTurn() // it has rolled back, and nobody has noticed
	}
	for t.holder.Load() != h {
		if t.holder.Load() == nil && len(db.queue) == 0 {
			db.giveTurn(h)
		} else if !db.await(h, true) {
			db.stats.busyWriter.Add(1)
			return
		}
	}
	for db.shm.probe.locked(lockWrite) {
		if !db.awaitLock(h) {
			db.stats.busyWriter.Add(1)
			db.nextTurn()
			return
		}
	}
}

// giveTurn makes it h's turn. It is nobody's.
//
// +checklocks:db.mu
func (db *database) giveTurn(h *handle) {
	db.turns++
	db.wal.turns.holder.Store(h)
}

// nextTurn ends the turn, and lets the first of the queue have the next.
//
// +checklocks:db.mu
func (db *database) nextTurn() {
	t := &db.wal.turns
	t.wrote = false
	t.holder.Store(nil)
	db.passOn()
}

// awaitLock waits until the lock is free that somebody holds without a turn, and says
// whether it may be. It is h's turn.
//
// +checklocks:db.mu
func (db *database) awaitLock(h *handle) bool {
	t := &db.wal.turns
	w := &waiter{h: h, writes: true, turn: make(chan struct{}), since: db.turns}
	t.next = w
	t.waiting.Store(true)
	db.stats.writerWaits.Add(1)
	db.mu.Unlock()
	began := db.meter.start()
	came := w.wait()
	db.meter.observe(metricWaitTime, began)
	db.mu.Lock()
	if t.next == w {
		db.lockFreed()
	}
	return came
}

// lockFreed lets the one look again that waits for the lock.
//
// +checklocks:db.mu
func (db *database) lockFreed() {
	t := &db.wal.turns
	if t.next != nil {
		close(t.next.turn)
		t.next = nil
		t.waiting.Store(false)
	}
}

// turnOver follows h's commit in WAL mode: it has let go of the lock.
func (db *database) turnOver(h *handle) {
	t := &db.wal.turns
	if t.holder.Load() != h && !t.waiting.Load() {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if t.holder.Load() == h {
		db.nextTurn()
		return
	}
	db.turns++ // it went before those in the queue
	db.lockFreed()
}

// lookAtTurn is called when h is about to do something with the index, and sees what it
// has done there before.
func (db *database) lookAtTurn(h *handle) {
	t := &db.wal.turns
	holds := t.holder.Load() == h
	if !holds && !t.waiting.Load() {
		return
	}
	locked := db.shm.probe.locked(lockWrite)
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case !holds && !locked:
		db.lockFreed()
	case !holds || t.holder.Load() != h:
	case locked:
		t.wrote = t.wrote || !h.use.index.locked(lockWrite) // nobody but h, then
	case t.wrote:
		db.nextTurn()
	}
}

// ask is what a waiter does in WAL mode before it asks whether to go on waiting: it
// sees to it that it doesn't wait for nobody.
func (w *waiter) ask() {
	db := w.h.db
	if !w.writes || !w.h.logged {
		return
	}
	if db.shm.probe.locked(lockWrite) {
		w.idle = 0
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.wal.turns.next == w:
		db.lockFreed()
	case len(db.queue) == 0 || db.queue[0] != w:
	case w.idle == 0 || w.idleTurn != db.turns:
		w.idle, w.idleTurn = 1, db.turns
	case w.idle < idleAsks:
		w.idle++
	default:
		db.nextTurn()
	}
}

// SharedMemory is where SQLite keeps its index of the log. It is called whenever SQLite
// is about to lock or unlock something in it, or to see what others have written there.
func (h *handle) SharedMemory() sqlitevfs.SharedMemory {
	if h.logged {
		h.usesIndex()
		h.db.lookAtTurn(h)
	}
	return h.shm
}
