package vfs

import (
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// Locks as readers and the writer of one process need them when readers have
// snapshots: SHARED pins a committed view, RESERVED makes the one writer, and
// EXCLUSIVE waits for no connection. The rules are stated in docs/vfs.md. In WAL mode they
// are those of files: EXCLUSIVE is for a connection that is alone.
//
// https://sqlite.org/lockingv3.html

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
		err = rollbackMode{h}.lockReserved()
	case sqlitevfs.LOCK_EXCLUSIVE:
		h.db.mu.Lock()
		if !h.db.owns(&h.session) {
			err = h.files().lockExclusive(h.db)
		}
		h.db.mu.Unlock()
	}
	if err != nil {
		return err
	}
	h.level = level
	return nil
}

// lockShared starts a read of the newest committed view. It is refused only to a
// connection that wants to write while another one does, and while a journal
// that was found at start-up is being rolled back.
func (h *handle) lockShared() error {
	db := h.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for db.closedTo(&h.session) {
		if db.await(&h.session, h.patience(), false) {
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
	// Nor in WAL mode, in which SQLite's index says which connection writes.
	for h.wantWrite && !db.hot && !h.readOnly && !db.owns(&h.session) && db.wal.users == 0 && !db.cur.header.Logged() {
		if db.owner.Load() == nil {
			db.begin(&h.session)
		} else if !db.await(&h.session, h.patience(), true) {
			db.stats.busyWriter.Add(1)
			return sqlite3.BUSY
		}
	}
	h.view = db.acquire()
	db.holders++
	return nil
}

// CheckReservedLock says whether another connection is the writer.
func (h *handle) CheckReservedLock() (bool, error) {
	owner := h.db.owner.Load()
	return owner != nil && owner != &h.session, nil
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
	if level != sqlitevfs.LOCK_NONE && db.leftLog(&h.session) {
		return nil
	}
	if level < sqlitevfs.LOCK_RESERVED && db.owns(&h.session) {
		h.files().endWrite()
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
