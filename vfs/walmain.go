package vfs

import (
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// The main file of a connection in WAL mode.

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
	n, err := db.main.writeAt(h.ctx, b, off)
	if err == nil && off < headerSize {
		copy(db.header[:], db.main.dirty.get(0)[:headerSize])
	}
	return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// truncateLogged is Truncate, after a checkpoint of the whole log: the last call that
// comes at every level of synchronous before SQLite believes that the main file has all.
func (h *handle) truncateLogged(size int64) error {
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	err := h.mayLog()
	if err == nil {
		w.mem.Lock()
		err = db.resizeMain(h.ctx, size)
		w.mem.Unlock()
	}
	if err == nil {
		err = db.storeMain(h.ctx)
	}
	return h.sqliteError(err, sqlite3.IOERR_TRUNCATE)
}

// syncLogged is Sync: the checkpoint is whole, and the log may be overwritten.
func (h *handle) syncLogged() error {
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	err := h.mayLog()
	if err == nil {
		err = db.storeMain(h.ctx)
	}
	if err == nil {
		if err = db.actor.Sync(h.ctx); err != nil {
			db.fail(err)
		}
	}
	return h.sqliteError(err, sqlite3.IOERR_FSYNC)
}

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

// sizeLogged is Size.
func (h *handle) sizeLogged() (int64, error) {
	w := &h.db.wal
	w.mem.RLock()
	defer w.mem.RUnlock()
	return h.db.main.size, nil
}
