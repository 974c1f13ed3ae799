package vfs

import (
	"github.com/ncruces/go-sqlite3"
)

// SQLite's batch-atomic write: between BEGIN and COMMIT it hands over every page
// that a transaction changed, having kept its journal in memory. They land as
// one engine commit; if that can't be, SQLite is asked to use a journal file.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlbeginatomicwrite

// BeginAtomicWrite opens the window. What it drops when it is rolled back must be
// all that is in memory; if there is more, which journal_mode=MEMORY has spilled,
// SQLite writes the rest of the transaction without a window.
func (h *handle) BeginAtomicWrite() error {
	if err := h.writable(); err != nil {
		return h.sqliteError(err, sqlite3.IOERR_BEGIN_ATOMIC)
	}
	if h.db.main.Changed() {
		return sqlite3.IOERR_BEGIN_ATOMIC
	}
	h.window = true
	return nil
}

// CommitAtomicWrite lands the window, whole and durable, or not at all.
//
// IOERR_COMMIT_ATOMIC makes SQLite do the same transaction again with a journal,
// so it is the answer to "too large" alone. A full quota must fail the statement
// (any SQLITE_IOERR would be retried), and after a failure in doubt the database
// refuses the journal too.
func (h *handle) CommitAtomicWrite() error {
	db := h.db
	if err := h.writable(); err != nil {
		return h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	err := h.ownCommit()
	if err == nil {
		err = db.commitAll(h.ctx)
	}
	switch {
	case err == nil:
		h.window = false
		db.stats.atomicCommits.Add(1)
		return nil
	case tooLarge(err):
		db.fellBack()
		return sqlite3.IOERR_COMMIT_ATOMIC
	}
	code := sqlite3.IOERR_WRITE
	if h.staged != nil {
		// The journal would land the transaction without what is staged for it.
		code = sqlite3.ExtendedErrorCode(sqlite3.ABORT)
	}
	return h.sqliteError(err, code)
}

// RollbackAtomicWrite drops the window.
func (h *handle) RollbackAtomicWrite() error {
	if !h.window {
		return nil
	}
	h.window = false
	h.db.main.Revert()
	h.db.mu.Lock()
	defer h.db.mu.Unlock()
	h.db.header = h.db.cur.header
	return nil
}
