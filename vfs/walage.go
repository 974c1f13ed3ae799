package vfs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// In WAL mode a transaction that reads keeps the log from being written from its start
// again, so that the log grows for as long as others write. It may do so for
// Options.MaxSnapshotAge after the state that it reads was replaced, as with a snapshot.
// Then it loses the lock in SQLite's index by which it holds the log, and is refused
// every read until it is over, because what it would read may be overwritten.
//
// Which transaction reads what, SQLite doesn't tell. But none begins without a call for
// the index: so a connection reads no older state than that of the last such call.

// A logUse is what a connection has to do with the log.
type logUse struct {
	index *indexFile // the connection's own, once it is open; changed under mark

	mark     sync.Mutex  // held while a transaction is outdated: none begins then
	seen     uint64      // of sharedLog.commits, at the last use of the index  +checklocks:mark
	copying  bool        // it makes a checkpoint  +checklocks:mark
	outdated atomic.Bool // what it reads may be overwritten; set under mark

	told  bool          // the error was counted
	blind bool          // its transaction wrote frames of which nobody can tell which one commits
	conn  *sqlite3.Conn // nil: not known, then nothing is taken from it  +checklocks:mark
}

// logAging bounds how long an old state of the log is read.
type logAging struct {
	open  map[*handle]bool // connections that have the log open
	timer *time.Timer
	armed bool
	// commits when the timer last fired, and when before that. It fires twice in
	// Options.MaxSnapshotAge.
	last, before uint64
}

// belongs is told whose connection it is.
func (u *logUse) belongs(conn any) {
	u.mark.Lock()
	defer u.mark.Unlock()
	u.conn, _ = conn.(*sqlite3.Conn)
}

// usesIndex notes that h is about to use the index. If it was outdated, and its
// transaction is over, it may read again.
func (h *handle) usesIndex() {
	u := &h.use
	u.mark.Lock()
	defer u.mark.Unlock()
	if u.index == nil {
		u.index = sameIndex(h.shm)
	}
	u.seen = h.db.wal.commits.Load()
	if u.outdated.Load() && !h.transacts() {
		u.outdated.Store(false)
		u.told = false
	}
}

// transacts says whether h's connection has a transaction of this database open; yes if
// it doesn't know.
func (h *handle) transacts() bool {
	c := h.use.conn
	for i := 0; ; i++ {
		schema := c.DBName(i)
		if schema == "" {
			return true
		}
		if fileOf(c, schema) == h {
			return c.TxnState(schema) != sqlite3.TXN_NONE
		}
	}
}

// current returns ErrSnapshotTooOld if what h reads may be overwritten. It is asked
// after each read: what was read before is good.
func (h *handle) current() error {
	u := &h.use
	if !u.outdated.Load() {
		return nil
	}
	if !u.told {
		u.told = true
		h.db.stats.expired.Add(1)
	}
	return fmt.Errorf("%w: the log went on, and is kept for %v", ErrSnapshotTooOld, h.db.opts.MaxSnapshotAge)
}

// CheckpointStart and CheckpointDone are told when SQLite copies from the log to the
// main file, and when it has. The latter is the last chance to store a part of the log
// that is not waited for; what is refused stays in memory.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlckptstart
func (h *handle) CheckpointStart() { h.copies(true) }

// CheckpointDone: see CheckpointStart.
func (h *handle) CheckpointDone() {
	h.copies(false)
	if !h.logged {
		return
	}
	db := h.db
	db.wal.write.Lock()
	defer db.wal.write.Unlock()
	if err := h.mayLog(); err != nil {
		return
	}
	if err := db.storeMain(h.ctx); err != nil {
		_ = h.sqliteError(err, sqlite3.IOERR_WRITE) // for its Cause; SQLite can't be told
	}
}

func (h *handle) copies(yes bool) {
	u := &h.use
	u.mark.Lock()
	defer u.mark.Unlock()
	u.copying = yes
	u.seen = h.db.wal.commits.Load()
}

// logAged follows the commit of a transaction to the log: what others read is old now.
//
// +checklocks:db.wal.write
func (db *database) logAged() {
	db.wal.commits.Add(1)
	db.mu.Lock()
	defer db.mu.Unlock()
	a := &db.wal.logAging
	if a.armed || db.opts.MaxSnapshotAge < 0 || len(a.open) < 2 {
		return
	}
	a.armed = true
	if a.timer == nil {
		a.timer = time.AfterFunc(db.opts.MaxSnapshotAge/2, db.ageLog)
		return
	}
	a.timer.Reset(db.opts.MaxSnapshotAge / 2)
}

// ageLog takes from transactions what they have read for too long.
func (db *database) ageLog() {
	db.mu.Lock()
	defer db.mu.Unlock()
	a := &db.wal.logAging
	now := db.wal.commits.Load()
	a.armed = false
	for h := range a.open {
		if h != db.wal.turns.holder.Load() && h.outdate(a.before, now) {
			a.armed = true
		}
	}
	a.before, a.last = a.last, now
	if a.armed {
		a.timer.Reset(db.opts.MaxSnapshotAge / 2)
	}
}

// outdate refuses h to read on if it reads a state from before the given commit. It says
// whether to look again: h reads a state that isn't the newest.
func (h *handle) outdate(limit, newest uint64) (again bool) {
	u := &h.use
	u.mark.Lock()
	defer u.mark.Unlock()
	switch {
	case u.seen >= newest || u.outdated.Load() || u.conn == nil:
		return false
	case u.seen >= limit || u.copying:
		return true
	}
	u.outdated.Store(true)
	u.index.unlock(lockRead, lockReadAll)
	return false
}

// leaveLog is the end of h's use of the log.
//
// +checklocks:h.db.mu
func (h *handle) leaveLog() {
	w := &h.db.wal
	delete(w.open, h)
	if w.timer != nil && len(w.open) == 0 {
		w.timer.Stop()
		w.armed = false
	}
	h.use.mark.Lock()
	h.use.index.close()
	h.use.index, h.use.told = nil, false
	h.use.outdated.Store(false)
	h.use.mark.Unlock()
	if w.turns.holder.Load() == h {
		h.db.nextTurn()
	}
	h.db.lockFreed()
}
