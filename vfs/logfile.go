package vfs

import (
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A walFile is the log as one connection has it open. From its opening to its closing
// the connection is in WAL mode: h.logged says so.
type walFile struct {
	noLocks
	h      logMode
	closed bool
}

var _ sqlitevfs.File = (*walFile)(nil)

// Close is the way out of WAL mode. The last one stores what checkpoints have written;
// the log is still there then. What it has of a transaction under way is forgotten.
func (f *walFile) Close() error {
	if f.closed || !f.h.logged {
		return nil
	}
	f.closed = true
	h, db, w := f.h, f.h.db, &f.h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	db.mu.Lock()
	w.users--
	last := w.users == 0
	db.mu.Unlock()
	err := db.healthy()
	if last && err == nil {
		err = w.storeMain(h.ctx)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	h.logged = false
	h.counterSeq, h.shown = 0, false // its cache may be older than the file
	if h.level > sqlitevfs.LOCK_NONE {
		h.view = db.acquire()
	}
	if last {
		w.mem.Lock()
		defer w.mem.Unlock()
		if db.main.Changed() {
			w.kept = err
			db.main.Revert()
			db.header = db.cur.header
		}
		w.file.Revert()
		w.committed, w.restarted, w.commitEnd = false, false, 0
		w.tail, w.tailOf = nil, -1
		db.removeIndex()
	}
	return h.sqliteError(err, sqlite3.IOERR_CLOSE)
}

func (f *walFile) ReadAt(b []byte, off int64) (int, error) {
	h := f.h
	if err := h.db.healthy(); err != nil {
		return 0, h.readError(err)
	}
	n, err := h.readNewest(&h.db.wal.file, b, off)
	return n, h.readError(err)
}

// WriteAt keeps b in memory until the transaction ends, or Options.TxMemory is full.
//
// With synchronous=FULL the end is SQLite's call of Sync. Below that none comes, and it
// is seen in the frames. What can't be seen, because it is encrypted, is stored at once:
// afterwards the transaction is done for SQLite, and nothing may fail any more.
func (f *walFile) WriteAt(b []byte, off int64) (int, error) {
	h, w := f.h, &f.h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	err := h.mayLog()
	if err == nil && !h.unstored {
		err = h.mayWrite() // SQLite has locked its index without asking
	}
	if err != nil {
		return 0, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	w.mem.Lock()
	if off == 0 && len(b) == format.LogHeaderSize && w.crowded() {
		// It begins again, and no reader needs what it had. SQLite writes the header alone
		// at no other time; a VFS on top that encrypts writes whole blocks.
		err = w.file.Resize(h.ctx, 0)
	}
	n := 0
	if err == nil {
		w.prime(off)
		n, err = w.file.WriteAt(h.ctx, b, off)
	}
	w.mem.Unlock()
	if err != nil {
		return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	h.unstored = true
	end := w.note(b, off)
	if w.full(&w.file) || h.syncLevel() < syncFull && (end || w.frame == 0) {
		err = f.store(false)
	}
	return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// store stores what is in memory.
//
// +checklocks:f.h.db.wal.write
func (f *walFile) store(durable bool) error {
	db := f.h.db
	f.h.unstored = false
	ends := db.wal.committed
	err := db.wal.storeLog(f.h.ctx, durable)
	f.h.ended = f.h.ended || err == nil && (ends || db.wal.frame == 0)
	return err
}

// Truncate happens after a checkpoint of the whole log, and to a log that has become
// too long.
func (f *walFile) Truncate(size int64) error {
	w := &f.h.db.wal
	return f.h.changing(sqlite3.IOERR_TRUNCATE, func() error {
		if size >= w.file.Size() {
			return nil
		}
		err := f.store(false)
		if err == nil {
			w.restarted = true
			w.mem.Lock()
			err = w.file.Resize(f.h.ctx, size)
			w.mem.Unlock()
		}
		if err == nil {
			w.tailOf = -1
			err = f.store(false)
		}
		return err
	})
}

// Sync ends a transaction with synchronous=FULL. Other calls have nothing to wait for:
// the log's header, before the first frame, and the log before a checkpoint.
func (f *walFile) Sync(sqlitevfs.SyncFlag) error {
	h, w := f.h, &f.h.db.wal
	return h.changing(sqlite3.IOERR_FSYNC, func() (err error) {
		full := h.syncLevel() >= syncFull
		if w.committed || w.frame == 0 {
			err = f.store(full)
		}
		if err == nil && full {
			// The end of the transaction may have been stored before: because memory was
			// full, or by a checkpoint of a connection that doesn't wait.
			err = h.db.durable(h.ctx)
		}
		return err
	})
}

func (f *walFile) Size() (int64, error) { return f.h.db.wal.size(&f.h.db.wal.file) }
