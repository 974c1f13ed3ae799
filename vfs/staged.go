package vfs

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/ncruces/go-sqlite3"
)

// staged is what lands with the transaction of a handle.
//
// SQLite ends a rollback as it ends a commit: the journal goes. So what is staged
// lands only between the call of COMMIT and its return (armed), and not when SQLite
// turned back on the way: because of an error that it was told, or for a reason of
// its own, and then it reads the journal. A commit never does, but for what lies behind
// its end. An encrypting VFS on top does, before it writes a part of one of its blocks:
// so a read that a write of the same place follows isn't SQLite's.
//
// Before the call a COMMIT is one of the function's SQL, which is refused: where an atomic
// write ends, and where SQLite syncs the main file. A rollback syncs it, too, but has read
// the journal. So has a ROLLBACK TO; but SQLite syncs the journal before it writes to the
// main file what a transaction has changed, and never after it has begun to roll back.
type staged struct {
	batch  *batch.Batch
	armed  bool
	over   bool // the transaction ended before COMMIT was called
	called bool // Update has called COMMIT; before that a COMMIT is one of the function's SQL

	whole   bool // it lands by one engine commit, or not at all
	applied bool // the commit is not waited for, whatever synchronous is

	panicked any // what a hook or a Late function did in the commit; nil if none did

	reading bool  // the journal was read, and neither synced nor, in COMMIT, written since
	at      int64 // where
}

// errWhole is why a transaction that must land by one engine commit doesn't go through the journal.
var errWhole = fmt.Errorf("vfs: the transaction is too large for one commit with those of other actors: %w", batch.ErrTooLarge)

// refuses returns an error for a commit without what is staged, if the writer's transaction must land whole.
func (db *turns) refuses(s *staged) error {
	if h := db.owner.Load(); s == nil && h != nil && h.staged != nil && h.staged.whole {
		return errWhole
	}
	return nil
}

// lookedBack is told that something of the journal was read at off.
func (db *turns) lookedBack(off int64) {
	h := db.owner.Load()
	if h == nil || h.staged == nil {
		return
	}
	s := h.staged
	if s.reading || s.batch.Settled() {
		db.disarm(errTurnedBack)
	}
	s.reading, s.at = true, off
}

// synced is told that the journal is synced: SQLite goes on, whatever it has read there.
func (db *turns) synced() {
	if h := db.owner.Load(); h != nil && h.staged != nil {
		h.staged.reading = false
	}
}

// ownCommit returns an error if what SQLite is about to do is a COMMIT in the SQL of an
// Update: what is staged would not land with it.
func (s *session) ownCommit() error {
	if s.staged == nil || s.staged.called || s.staged.reading {
		return nil
	}
	return errOwnCommit
}

var errOwnCommit = fmt.Errorf("%w: COMMIT is Update's, and its SQL is rolled back", ErrTxOver)

// wentOn is told that the journal is written at off.
func (db *turns) wentOn(off int64) {
	s := db.landing()
	if s == nil || !s.reading {
		return
	}
	if s.reading = false; s.at != off {
		db.disarm(errTurnedBack)
	}
}

// landing returns what must land with the commit that the writer is about to make,
// nil if nothing.
func (db *turns) landing() *staged {
	h := db.owner.Load()
	if h == nil || h.staged == nil || !h.staged.armed {
		return nil
	}
	return h.staged
}

// disarm keeps what is staged from landing with the transaction of the writer, which
// turns back. If it has landed already it can't turn back: SQLite would undo its
// own part alone, so the database refuses that, and everything else.
func (db *turns) disarm(reason error) {
	s := db.landing()
	if s == nil {
		return
	}
	if s.armed = false; s.batch.Settled() {
		db.fail(reason)
	}
}

// errTurnedBack: SQLite began to roll back a transaction after it had landed.
var errTurnedBack = errors.New("vfs: rollback of a transaction that is committed")

// ownerError is the database's sqliteError, of a file beside the main file, which only
// the writer changes.
func (db *turns) ownerError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if h := db.owner.Load(); h != nil {
		h.tell(err, ioerr)
	}
	return db.sqliteError(err, ioerr)
}
