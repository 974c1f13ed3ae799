package vfs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// A handle is the main database file as one connection has it open. SQLite uses
// it from one goroutine at a time.
type handle struct {
	db       *database
	ctx      context.Context
	readOnly bool

	session
	hold
	level     sqlitevfs.LockLevel
	wantWrite bool // the transaction that starts is BEGIN IMMEDIATE or EXCLUSIVE
	unstored  bool // it has written to the log what isn't stored
	window    bool // between BEGIN and COMMIT or ROLLBACK of an atomic write

	shm  sqlitevfs.SharedMemory // nil where the platform has none
	conn any                    // the connection, once SQLite has said which
	busy func() bool            // asks its busy handler

	begun bool            // BeginUpdate began, or is about to begin, the transaction
	ahead *readahead.Conn // nil on a near engine

	closed bool

	key []byte
}

var (
	_ sqlitevfs.File                 = (*handle)(nil)
	_ sqlitevfs.FileLockState        = (*handle)(nil)
	_ sqlitevfs.FileBatchAtomicWrite = (*handle)(nil)
	_ sqlitevfs.FileCommitPhaseTwo   = (*handle)(nil)
	_ sqlitevfs.FilePragma           = (*handle)(nil)
	_ sqlitevfs.FileBusyHandler      = (*handle)(nil)
	_ sqlitevfs.FileSharedMemory     = (*handle)(nil)
	_ sqlitevfs.FileCheckpoint       = (*handle)(nil)
)

// Close gives up every lock. It never commits. SQLite may ask twice
// (SQLITE_FCNTL_NULL_IO closes a file under it).
func (h *handle) Close() error {
	if h.closed {
		return nil
	}
	h.closed = true
	if h.shm != nil {
		_ = h.shm.Close() // SQLite has let go of it; there is nothing to lose
	}
	var err error
	if h.logged { // a connection that was lost
		err = (&walFile{h: logMode{h}}).Close()
	}
	err = errors.Join(err, h.Unlock(sqlitevfs.LOCK_NONE))
	leaveConnection(h.conn, h)
	h.conn = nil
	h.ahead.Close()
	if h.db.closeHandle() && !h.left {
		h.db.keepHints(h.ctx)
	}
	return err
}

// SectorSize is one chunk: what the store never tears.
func (h *handle) SectorSize() int { return chunked.Size }

// DeviceCharacteristics offers the atomic batch write for files that are plain
// SQLite. The others need the change counter that SQLite itself keeps, and its
// atomic commit doesn't move that.
func (h *handle) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	if size, header := (rollbackMode{h}).seen(); size > 0 && !header.Plain() {
		return characteristics
	}
	return characteristics | sqlitevfs.IOCAP_BATCH_ATOMIC
}

// A mode is how the files of a database work for a connection: with a rollback journal, or with a log.
type mode interface {
	readAt(b []byte, off int64) (int, error)
	writeAt(b []byte, off int64) (int, error)
	truncate(size int64) error
	syncFile() error
	size() (int64, error)
	// lockExclusive makes the connection the only writer, which it isn't, of db; db.mu is held.
	lockExclusive(db *database) error
	// committed follows every commit.
	committed() error
	// endWrite makes the connection, which is the writer, stop being it.
	endWrite()
}

// files returns the mode that h is in.
func (h *handle) files() mode {
	if h.logged {
		return logMode{h}
	}
	return rollbackMode{h}
}

// ReadAt reads the state that the connection's mode shows.
func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	if err := h.db.healthy(); err != nil {
		return 0, h.readError(err)
	}
	return h.files().readAt(b, off)
}

// WriteAt keeps b in memory. What becomes too much is stored in parts.
func (h *handle) WriteAt(b []byte, off int64) (int, error) { return h.files().writeAt(b, off) }

// Truncate sets the size of the file.
func (h *handle) Truncate(size int64) error { return h.files().truncate(size) }

// Sync is called before a commit, and behind a checkpoint.
func (h *handle) Sync(sqlitevfs.SyncFlag) error { return h.files().syncFile() }

// Size is the size of the state that ReadAt reads.
func (h *handle) Size() (int64, error) { return h.files().size() }

// CommitPhaseTwo follows every commit.
func (h *handle) CommitPhaseTwo() error { return h.files().committed() }

// SharedMemory is where SQLite keeps its index of the log, with the locks of readers,
// writers and checkpoints in it.
func (h *handle) SharedMemory() sqlitevfs.SharedMemory { return h.shm }

// CheckpointStart is called when SQLite begins to copy from the log to the main file.
func (h *handle) CheckpointStart() {}

// CheckpointDone is called when it has.
func (h *handle) CheckpointDone() {
	if h.logged {
		logMode{h}.checkpointed()
	}
}

// SQLite's batch-atomic write: between BEGIN and COMMIT it hands over every page
// that a transaction changed, having kept its journal in memory. They land as
// one engine commit; if that can't be, SQLite is asked to use a journal file.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlbeginatomicwrite

// BeginAtomicWrite opens the window. What it drops when it is rolled back must be
// all that is in memory; if there is more, which journal_mode=MEMORY has spilled,
// SQLite writes the rest of the transaction without a window.
func (h *handle) BeginAtomicWrite() error {
	if err := (rollbackMode{h}).writable(); err != nil {
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
	if err := (rollbackMode{h}).writable(); err != nil {
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
	case tooLarge(err) && (h.staged == nil || !h.staged.whole):
		db.fellBack(db.main.Pending())
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

// Pragma sees every PRAGMA that names this database before SQLite does. It
// refuses what would make a promise of this package untrue; the text becomes
// the statement's error.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma
func (h *handle) Pragma(name, value string) (string, error) {
	err := h.settings.pragma(pragmaContext{within: h.staged != nil, inTx: h.inTransaction(), shared: h.shm != nil}, name, value)
	switch {
	case err != nil:
	case name == beginHint:
		h.wantWrite = true
		if h.logged { // there SQLite takes no lock that would ask
			if err := h.db.owned(h.ctx); err != nil {
				return "", h.sqliteError(err, sqlite3.IOERR_LOCK)
			}
		}
		return "", nil
	case name == statsPragma && value != "":
		err = fmt.Errorf("%w: PRAGMA %s takes no value", ErrUnsupported, statsPragma)
	case name == statsPragma:
		return h.db.report(), nil
	default:
		return "", sqlite3.NOTFOUND
	}
	h.tell(err, sqlite3.ExtendedErrorCode(sqlite3.ERROR))
	return "", err
}

// inTransaction says whether the connection is within a transaction: as SQLite says it or, where a VFS above this one keeps from
// it whose connection it is, as its lock says it.
func (h *handle) inTransaction() bool {
	if c, ok := h.conn.(*sqlite3.Conn); ok {
		return !c.GetAutocommit()
	}
	return h.level > sqlitevfs.LOCK_NONE
}

// BusyHandler is told the function that decides whether this connection goes on
// waiting (SQLITE_FCNTL_BUSYHANDLER).
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlbusyhandler
func (h *handle) BusyHandler(handler func() bool) { h.busy = handler }

// patience is how long the connection's statement waits.
func (h *handle) patience() patience { return patience{h.statement(), h.busy} }

// mayWrite asks Options.MayWrite, before h becomes the writer or waits for that, unless it
// is for BeginUpdate.
func (h *handle) mayWrite() error {
	if h.db.opts.MayWrite == nil || h.begun || h.db.owns(&h.session) {
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

// sqliteError is the database's, of what this connection did: if it is the writer,
// its transaction turns back.
func (h *handle) sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err != nil && h.db.owns(&h.session) {
		h.db.disarm(err)
	}
	h.tell(err, ioerr)
	return h.db.sqliteError(err, ioerr)
}

// readError is sqliteError for reads: io.EOF must reach go-sqlite3 as it is.
func (h *handle) readError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if !errors.Is(err, actorstore.ErrCorrupt) { // damage is what a check is to find
		h.told.refused = err
	}
	return h.sqliteError(err, sqlite3.IOERR_READ)
}

// fileOf returns the file of a connection's database schema, nil if it isn't
// this package's, or one that another VFS on top hides.
func fileOf(c *sqlite3.Conn, schema string) *handle {
	name := c.Filename(schema)
	if name.String() == "" {
		return nil // in memory, or temporary
	}
	h, _ := vfsutil.UnwrapFile[*handle](name.DatabaseFile())
	return h
}
