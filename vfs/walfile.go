package vfs

import (
	"io"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A walFile is the log as one connection has it open. From its opening to its closing
// the connection is in WAL mode: h.logged says so.
type walFile struct {
	noLocks
	h      *handle
	closed bool
}

var _ sqlitevfs.File = (*walFile)(nil)

// openLog is h's way into WAL mode. A connection that writes with a rollback journal, or
// has the file for itself, must be gone first.
func (h *handle) openLog() (*walFile, error) {
	db, w := h.db, &h.db.wal
	if err := db.healthy(); err != nil {
		return nil, err
	}
	if err := h.moveBeforeLog(); err != nil {
		return nil, err
	}
	w.write.Lock()
	defer w.write.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	switch owner := db.owner.Load(); {
	case db.hot || db.torn:
		return nil, sqlite3.BUSY_RECOVERY
	case owner != nil && owner != h:
		return nil, sqlite3.BUSY
	case owner == h && h.level == sqlitevfs.LOCK_SHARED:
		db.owner.Store(nil) // it began as a writer, and now asks SQLite's index for that
		defer db.passOn()   // the others will do so, too
	}
	if w.users == 0 {
		if err := db.shm.make(); err != nil {
			return nil, err
		}
		w.kept = nil // the index is made anew, from all of the log
	}
	w.users++
	if h.view != nil {
		db.release(h.view)
		h.view = nil
	}
	h.logged, h.strict = true, h.level == sqlitevfs.LOCK_EXCLUSIVE
	db.main.Reader = db.source
	w.mem.Lock()
	defer w.mem.Unlock()
	w.exists = true
	return &walFile{h: h}, nil
}

// moveBeforeLog rewrites a database under keys of the older form, as its first writer.
func (h *handle) moveBeforeLog() error {
	db := h.db
	if _, named := db.newest().(*oldkeys.Source); !named || db.actor == nil {
		return nil
	}
	db.mu.Lock()
	owner := db.owner.Load()
	if owner != nil && owner != h || db.hot {
		db.mu.Unlock()
		return sqlite3.BUSY
	}
	db.owner.Store(h)
	db.mu.Unlock()
	err := db.takeOver(h.ctx)
	db.mu.Lock()
	defer db.mu.Unlock()
	if owner == nil {
		db.owner.Store(nil)
		db.passOn()
	}
	return err
}

// newest returns the source of the newest state.
func (db *database) newest() chunked.Source {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.source
}

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
		err = db.storeMain(h.ctx)
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
		db.shm.remove(db)
	}
	return h.sqliteError(err, sqlite3.IOERR_CLOSE)
}

// readNewest fills b from f, one of the two files, as the newest state has it. SQLite
// sees to it that nobody overwrites what another connection may still read.
func (h *handle) readNewest(f *chunked.File, b []byte, off int64) (int, error) {
	if h.ahead != nil {
		h.prepareNewest(f, h.db.source, off, int64(len(b)))
	}
	for n := 0; n < len(b); {
		pos := off + int64(n)
		i, at := uint32(pos/chunked.Size), int(pos%chunked.Size)
		piece, found := h.db.wal.overlaid(f, b[n:], pos)
		if len(piece) == 0 {
			return n, io.EOF
		}
		if !found {
			h.key = f.Layout.AppendFileChunk(h.key[:0], f.Tag, i)
			got, err := chunked.Read(h.ctx, h.db.source, h.key, piece, at, &h.scratch)
			if err != nil {
				return n, err
			}
			f.Learn(i, got)
			h.db.stats.pageReads.Add(1)
		}
		n += len(piece)
	}
	return len(b), nil
}

// overlaid returns the beginning of b that lies in one chunk of f, at off, nothing
// beyond the end. It is filled if memory has the chunk.
func (w *sharedLog) overlaid(f *chunked.File, b []byte, off int64) (piece []byte, found bool) {
	w.mem.RLock()
	defer w.mem.RUnlock()
	return f.Overlay(b, off)
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
	h, db, w := f.h, f.h.db, &f.h.db.wal
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
	if off == 0 && len(b) == format.LogHeaderSize && w.crowded(db.actor) {
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
	if db.full(&w.file) || h.synchronous() < syncFull && (end || w.frame == 0) {
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
	err := db.storeLog(f.h.ctx, durable)
	f.h.ended = f.h.ended || err == nil && (ends || db.wal.frame == 0)
	return err
}

// mayLog returns an error unless h may write the files in WAL mode.
func (h *handle) mayLog() error {
	if err := h.db.healthy(); err != nil {
		return err
	}
	if h.readOnly || !h.logged {
		return errNotOwner
	}
	return nil
}

// Truncate happens after a checkpoint of the whole log, and to a log that has become
// too long.
func (f *walFile) Truncate(size int64) error {
	w := &f.h.db.wal
	return f.h.logging(sqlite3.IOERR_TRUNCATE, func() error {
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
	return h.logging(sqlite3.IOERR_FSYNC, func() (err error) {
		full := h.synchronous() >= syncFull
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
