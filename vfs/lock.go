package vfs

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// Locks as readers and the writer of one process need them when readers have
// snapshots: SHARED pins a committed view, RESERVED makes the one writer, and
// EXCLUSIVE waits for nobody. The rules are stated in docs/vfs.md. In WAL mode they
// are those of files: EXCLUSIVE is for who is alone.
//
// https://sqlite.org/lockingv3.html

// errNotOwner: SQLite wrote without the lock for it.
var errNotOwner = errors.New("vfs: write without the write lock")

// Lock raises the lock of this connection to level.
func (h *handle) Lock(level sqlitevfs.LockLevel) error {
	if level <= h.level {
		return nil
	}
	err := h.db.healthy()
	if h.level == sqlitevfs.LOCK_NONE {
		err = h.db.owned(h.ctx)
	}
	if err != nil {
		return h.sqliteError(err, sqlite3.IOERR_LOCK)
	}
	if level > sqlitevfs.LOCK_SHARED && h.readOnly {
		return sqlite3.READONLY
	}
	if h.staged != nil && h.staged.over && (level > sqlitevfs.LOCK_SHARED || h.wantWrite) {
		return h.sqliteError(ErrTxOver, sqlite3.IOERR_LOCK) // it would land by itself
	}
	// SQLite goes from SHARED straight to EXCLUSIVE to roll back a journal. The caller writes nothing then, so MayWrite
	// isn't asked: the first connection after a crash may be opened within an update of the actor.
	rollback := level == sqlitevfs.LOCK_EXCLUSIVE && h.level == sqlitevfs.LOCK_SHARED && !h.logged
	if (level > sqlitevfs.LOCK_SHARED || h.wantWrite) && !rollback {
		if err := h.mayWrite(); err != nil {
			return h.sqliteError(err, sqlite3.IOERR_LOCK)
		}
	}
	switch level {
	case sqlitevfs.LOCK_SHARED:
		err = h.lockShared()
	case sqlitevfs.LOCK_RESERVED:
		if err = h.lockReserved(); err == nil {
			err = h.undoFirst()
		}
	case sqlitevfs.LOCK_EXCLUSIVE:
		err = h.lockExclusive()
	}
	if err != nil {
		return err
	}
	h.level = level
	return nil
}

// mayWrite asks Options.MayWrite, before h becomes the writer or waits for that, unless it
// is for BeginUpdate.
func (h *handle) mayWrite() error {
	if h.db.opts.MayWrite == nil || h.begun || h.owns() {
		return nil
	}
	return h.db.opts.MayWrite(h.statement())
}

// statement returns the context of the statement that h's connection executes.
func (h *handle) statement() context.Context {
	if c, ok := h.conn.(*sqlite3.Conn); ok {
		return c.GetInterrupt()
	}
	return h.ctx
}

// lockShared starts a read of the newest committed view. It is refused only to a
// connection that wants to write while another one does, and while a journal
// that was found at start-up is being rolled back.
func (h *handle) lockShared() error {
	db := h.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for db.closedTo(h) {
		if db.await(h, false) {
			continue
		}
		if db.torn {
			return sqlite3.BUSY_RECOVERY
		}
		return sqlite3.BUSY
	}
	// A transaction that begins as a writer becomes it here, so that its view
	// can't be overtaken between the two locks. Not while a journal must be
	// rolled back: that needs the way from SHARED straight to EXCLUSIVE.
	// Nor in WAL mode, in which SQLite's index says who writes.
	for h.wantWrite && !db.hot && !h.readOnly && db.owner.Load() != h && db.wal.users == 0 && !db.cur.header.Logged() {
		if db.owner.Load() == nil {
			db.begin(h)
		} else if !db.await(h, true) {
			db.stats.busyWriter.Add(1)
			return sqlite3.BUSY
		}
	}
	h.view = db.acquire()
	db.holders++
	return nil
}

// closedTo says whether h may not read now: a journal is being rolled back, or a
// connection in WAL mode has the file for itself.
//
// +checklocks:db.mu
func (db *database) closedTo(h *handle) bool {
	owner := db.owner.Load()
	return owner != nil && owner != h && (db.torn || owner.strict)
}

// lockReserved makes this connection the writer, unless there is one, or what it
// has read is no longer the newest state.
func (h *handle) lockReserved() error {
	db := h.db
	db.mu.Lock()
	defer db.mu.Unlock()
	switch owner := db.owner.Load(); {
	case owner == h:
		return nil
	case h.view != db.cur:
		db.stats.busySnapshot.Add(1)
		return sqlite3.BUSY_SNAPSHOT
	case owner != nil, db.wal.users > 0:
		db.stats.busyWriter.Add(1)
		return sqlite3.BUSY
	}
	db.begin(h)
	return nil
}

// undoFirst is called by the writer before anything else: if a journal is left of a first
// transaction, which failed after a part of it was stored, it empties the file again and
// removes the journal. SQLite doesn't do that: where the committed file is empty it takes
// any journal for that of another file, which it removes unread, and goes on if that fails.
// So h isn't the writer unless this succeeds.
//
// https://sqlite.org/lockingv3.html#hot_journals
func (h *handle) undoFirst() error {
	db := h.db
	db.mu.Lock()
	left := db.hot && db.cur.size == 0
	db.mu.Unlock()
	if !left {
		return nil
	}
	err := db.resizeMain(h.ctx, 0)
	if err == nil {
		err = db.finishJournal(h.ctx, true)
	}
	if err != nil {
		err = h.sqliteError(err, sqlite3.IOERR_LOCK)
		h.endWrite()
	}
	return err
}

// lockExclusive is granted to the writer at once. From SHARED it is the way of a
// hot journal's rollback; it is granted then even if no journal is hot, because
// after an error SQLite takes this way without looking.
func (h *handle) lockExclusive() error {
	db := h.db
	db.mu.Lock()
	defer db.mu.Unlock()
	switch owner := db.owner.Load(); {
	case owner == h:
		return nil
	case owner != nil, h.logged && db.holders > 1, !h.logged && db.wal.users > 0:
		db.stats.busyWriter.Add(1)
		return sqlite3.BUSY
	case h.logged:
		h.strict = true
	case h.view != db.cur:
		db.stats.busySnapshot.Add(1)
		return sqlite3.BUSY_SNAPSHOT
	case db.torn && db.cur.refs > 1:
		return sqlite3.BUSY // the others would read the store while it changes
	}
	db.begin(h)
	return nil
}

// CheckReservedLock says whether another connection is the writer.
func (h *handle) CheckReservedLock() (bool, error) {
	owner := h.db.owner.Load()
	return owner != nil && owner != h, nil
}

// LockState returns the lock that this connection holds.
func (h *handle) LockState() sqlitevfs.LockLevel { return h.level }

// Unlock lowers the lock of this connection to level. It never fails: SQLite
// would no longer know which lock it holds.
func (h *handle) Unlock(level sqlitevfs.LockLevel) error {
	h.wantWrite = false
	if h.level <= level {
		return nil
	}
	db := h.db
	if level != sqlitevfs.LOCK_NONE && leftLog(h) {
		return nil
	}
	if level < sqlitevfs.LOCK_RESERVED && h.owns() {
		h.endWrite()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if level == sqlitevfs.LOCK_NONE {
		db.holders--
	}
	if h.view != nil && (level == sqlitevfs.LOCK_NONE || h.view != db.cur) {
		db.release(h.view)
		h.view = nil
		if level != sqlitevfs.LOCK_NONE {
			h.view = db.acquire()
		}
	}
	h.level = level
	if level == sqlitevfs.LOCK_NONE {
		db.meter.flush(&db.stats)
	}
	return nil
}

// leftLog says whether h is on its way out of WAL mode: it has removed the log, and the header
// doesn't say so yet. SQLite gives up EXCLUSIVE between the two, and asks for it again. Who
// opened the log meanwhile would have SQLite write the new header, and what follows, to a log
// that it takes for none: a VACUUM that changes the size of pages is damage then. So h keeps
// the file for itself until it needs no lock at all.
//
// https://sqlite.org/wal.html#activating_and_configuring_wal_mode
func leftLog(h *handle) bool {
	h.db.mu.Lock()
	defer h.db.mu.Unlock()
	return h.strict && !h.logged
}

// endWrite makes h stop being the writer. Whatever it left in memory is dropped:
// what was committed is stored, and what was rolled back never was, or its
// journal says so.
func (h *handle) endWrite() {
	db := h.db
	if h.logged {
		db.mu.Lock()
		defer db.mu.Unlock()
		h.strict = false
		db.owner.Store(nil)
		db.passOn()
		return
	}
	h.window = false
	if h.staged != nil && !h.staged.armed {
		h.staged.over = true
	}
	active := db.journal.active()
	hot := active && db.journal.isStoredLive()
	if active {
		db.journal.abandon()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.main.Changed() {
		db.main.Revert()
		db.header = db.cur.header
		h.counterSeq = 0 // SQLite's cache may hold what was dropped
	}
	switch {
	case hot:
		if !db.hot {
			db.leftBehind()
		}
		db.hot = true
	case db.dirty || db.hot:
		db.publish(h)
	}
	admit(db)
	db.main.Reader = db.source
	db.shed()
	h.strict = false
	db.owner.Store(nil)
	db.passOn()
}

// CommitPhaseTwo follows every commit, after the journal's end and after the
// truncation that may follow it: from now on readers see the new state, also
// with locking_mode=EXCLUSIVE, which never unlocks.
func (h *handle) CommitPhaseTwo() error {
	db := h.db
	if h.logged {
		return h.commitLogged()
	}
	if !h.owns() {
		return nil
	}
	if err := db.healthy(); err != nil {
		return h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if db.journal.active() {
		// Its end was not seen: a VFS on top has encrypted the zeroed header of
		// journal_mode=PERSIST. A rollback doesn't come here.
		if err := db.finishJournal(h.ctx, false); err != nil {
			return h.sqliteError(err, sqlite3.IOERR_WRITE)
		}
	}
	if err := h.landRest(); err != nil {
		if !h.ended || db.healthy() != nil {
			return h.sqliteError(err, sqlite3.IOERR_WRITE)
		}
		// The transaction has landed, and the engine refused the truncation behind it. The file keeps its length, which
		// SQLite allows: the header says how many pages count.
		db.main.Revert()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.dirty {
		return nil
	}
	db.publish(h)
	return nil
}

// landRest stores what a commit leaves to COMMIT_PHASETWO: a truncation, which need
// not be waited for, or with synchronous=OFF and no journal everything.
func (h *handle) landRest() error {
	if h.db.main.Pending() == 0 {
		return h.db.flushMain(h.ctx)
	}
	return h.db.landMain(h.ctx)
}
