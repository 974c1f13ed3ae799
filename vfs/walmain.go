package vfs

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// The main file of a connection in WAL mode.

// logging has fn change the two files, unless h may not, and returns what SQLite should
// see of an error. fn is called under sharedLog.write.
func (h *handle) logging(code sqlite3.ExtendedErrorCode, fn func() error) error {
	h.db.wal.write.Lock()
	defer h.db.wal.write.Unlock()
	err := h.mayLog()
	if err == nil {
		err = fn()
	}
	return h.sqliteError(err, code)
}

// readLogged is ReadAt.
func (h *handle) readLogged(b []byte, off int64) (int, error) {
	n, err := h.readNewest(&h.db.main, b, off)
	return n, h.readError(err)
}

// writeLogged is WriteAt: a checkpoint. What it writes is in the log until all of it is
// on stable storage.
func (h *handle) writeLogged(b []byte, off int64) (int, error) {
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	if err := h.mayLog(); err != nil {
		return 0, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if db.full(&db.main) {
		if err := db.storeMain(h.ctx); err != nil {
			return 0, h.sqliteError(err, sqlite3.IOERR_WRITE)
		}
	}
	w.mem.Lock()
	defer w.mem.Unlock()
	n, err := db.main.WriteAt(h.ctx, b, off)
	if err == nil && off < format.HeaderSize {
		copy(db.header[:], db.main.Page(0)[:format.HeaderSize])
	}
	return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// truncateLogged is Truncate, after a checkpoint of the whole log: the last call that
// comes at every level of synchronous before SQLite believes that the main file has all.
func (h *handle) truncateLogged(size int64) error {
	return h.logging(sqlite3.IOERR_TRUNCATE, func() error {
		h.db.wal.mem.Lock()
		err := h.db.resizeMain(h.ctx, size)
		h.db.wal.mem.Unlock()
		if err == nil {
			err = h.db.storeMain(h.ctx)
		}
		return err
	})
}

// syncLogged is Sync: the checkpoint is whole, and the log may be overwritten.
func (h *handle) syncLogged() error {
	return h.logging(sqlite3.IOERR_FSYNC, func() error {
		err := h.db.storeMain(h.ctx)
		if err == nil {
			err = h.db.durable(h.ctx)
		}
		return err
	})
}

// errIndexAhead is why a database fails when SQLite's index has a commit whose end the stored log lacks.
var errIndexAhead = errors.New("vfs: the end of a commit in WAL mode was not stored")

// commitLogged follows every commit. It stores what the commit has left in memory: the
// checksums that SQLite writes anew when it has overwritten a frame. They need no room,
// so a failure is one that nobody can undo.
func (h *handle) commitLogged() error {
	if !h.unstored {
		return nil
	}
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	h.unstored = false
	err := db.healthy()
	if err == nil {
		if err = db.storeLog(h.ctx, h.synchronous() >= syncFull); err != nil {
			err = fmt.Errorf("%w: %w", errIndexAhead, err)
			db.fail(err)
		}
	}
	return h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// SharedMemory is where SQLite keeps its index of the log, with the locks of readers,
// writers and checkpoints in it.
func (h *handle) SharedMemory() sqlitevfs.SharedMemory { return h.shm }

// CheckpointStart is called when SQLite begins to copy from the log to the main file.
func (h *handle) CheckpointStart() {}

// CheckpointDone is called when it has. That is the last chance to store a part of the
// log that is not waited for; what is refused stays in memory.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlckptstart
func (h *handle) CheckpointDone() {
	if h.logged {
		_ = h.logging(sqlite3.IOERR_WRITE, func() error { return h.db.storeMain(h.ctx) }) // for its Cause; SQLite can't be told
	}
}
