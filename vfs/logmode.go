package vfs

import (
	"errors"
	"fmt"
	"io"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A logMode is the main file of a connection in WAL mode.
type logMode struct{ *handle }

var _ mode = logMode{}

// open is the way into WAL mode. A connection that writes with a rollback journal, or
// has the file for itself, must be gone first.
func (h logMode) open() (*walFile, error) {
	db, w := h.db, &h.db.wal
	if err := db.healthy(); err != nil {
		return nil, err
	}
	if err := h.rewrite(); err != nil {
		return nil, err
	}
	w.write.Lock()
	defer w.write.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	switch owner := db.owner.Load(); {
	case db.hot || db.torn:
		return nil, sqlite3.BUSY_RECOVERY
	case owner != nil && owner != &h.session:
		return nil, sqlite3.BUSY
	case owner == &h.session && h.level == sqlitevfs.LOCK_SHARED:
		db.owner.Store(nil)    // it began as a writer, and now asks SQLite's index for that
		defer db.passOn(false) // the others will do so, too
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

// rewrite rewrites a database under keys of the older form, as its first writer.
func (h logMode) rewrite() error {
	db := h.db
	if _, named := db.newest().(*oldkeys.Source); !named || db.actor == nil {
		return nil
	}
	db.mu.Lock()
	owner := db.owner.Load()
	if owner != nil && owner != &h.session || db.hot {
		db.mu.Unlock()
		return sqlite3.BUSY
	}
	db.owner.Store(&h.session)
	db.mu.Unlock()
	err := db.takeOver(h.ctx)
	db.mu.Lock()
	defer db.mu.Unlock()
	if owner == nil {
		db.owner.Store(nil)
		db.passOn(db.free())
	}
	return err
}

// changing calls fn to change the two files, unless h may not change them, and returns what SQLite
// should see of an error. fn runs under sharedLog.write.
func (h logMode) changing(code sqlite3.ExtendedErrorCode, fn func() error) error {
	h.db.wal.write.Lock()
	defer h.db.wal.write.Unlock()
	err := h.mayLog()
	if err == nil {
		err = fn()
	}
	return h.sqliteError(err, code)
}

// readAt is ReadAt.
func (h logMode) readAt(b []byte, off int64) (int, error) {
	n, err := h.readNewest(&h.db.main, b, off)
	return n, h.readError(err)
}

// writeAt is WriteAt: a checkpoint. What it writes is in the log until all of it is
// on stable storage.
func (h logMode) writeAt(b []byte, off int64) (int, error) {
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	if err := h.mayLog(); err != nil {
		return 0, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if w.full(&db.main) {
		if err := w.storeMain(h.ctx); err != nil {
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

// truncate is Truncate, after a checkpoint of the whole log: the last call that
// comes at every level of synchronous before SQLite believes that the main file has all.
func (h logMode) truncate(size int64) error {
	return h.changing(sqlite3.IOERR_TRUNCATE, func() error {
		h.db.wal.mem.Lock()
		err := h.db.resizeMain(h.ctx, size)
		h.db.wal.mem.Unlock()
		if err == nil {
			err = h.db.wal.storeMain(h.ctx)
		}
		return err
	})
}

// syncFile is Sync: the checkpoint is whole, and the log may be overwritten.
func (h logMode) syncFile() error {
	return h.changing(sqlite3.IOERR_FSYNC, func() error {
		err := h.db.wal.storeMain(h.ctx)
		if err == nil {
			err = h.db.durable(h.ctx)
		}
		return err
	})
}

// errIndexAhead is why a database fails when SQLite's index has a commit whose end the stored log lacks.
var errIndexAhead = errors.New("vfs: the end of a commit in WAL mode was not stored")

// committed follows every commit. It stores what the commit left in memory: the checksums that
// SQLite rewrites after it overwrites a frame. They need no room, so a failure can't be undone.
func (h logMode) committed() error {
	if !h.unstored {
		return nil
	}
	db, w := h.db, &h.db.wal
	w.write.Lock()
	defer w.write.Unlock()
	h.unstored = false
	err := db.healthy()
	if err == nil {
		if err = w.storeLog(h.ctx, h.syncLevel() >= syncFull); err != nil {
			err = fmt.Errorf("%w: %w", errIndexAhead, err)
			db.fail(err)
		}
	}
	return h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// readNewest fills b from f, one of the two files, as the newest state has it. SQLite
// sees to it that no connection overwrites what another connection may still read.
func (h logMode) readNewest(f *chunked.File, b []byte, off int64) (int, error) {
	if h.ahead != nil {
		h.db.prepareNewest(h.ctx, h.ahead, f, h.db.source, off, int64(len(b)))
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
			got, err := chunked.Read(h.ctx, h.db.source, h.key, piece, at)
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

// mayLog returns an error unless h may write the files in WAL mode.
func (h logMode) mayLog() error {
	if err := h.db.healthy(); err != nil {
		return err
	}
	if h.readOnly || !h.logged {
		return errNotOwner
	}
	return nil
}

// checkpointed is called when SQLite has copied from the log to the main file. That is the last chance to store a part of the
// log that is not waited for; what is refused stays in memory.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlckptstart
func (h logMode) checkpointed() {
	_ = h.changing(sqlite3.IOERR_WRITE, func() error { return h.db.wal.storeMain(h.ctx) }) // for its Cause; SQLite can't be told
}

// size is Size.
func (h logMode) size() (int64, error) { return h.db.wal.size(&h.db.main) }

// lockExclusive is granted as by files: to a connection that is alone.
//
// +checklocks:h.db.mu
func (h logMode) lockExclusive(db *database) error {
	if db.owner.Load() != nil || db.holders > 1 {
		db.stats.busyWriter.Add(1)
		return sqlite3.BUSY
	}
	h.strict = true
	db.begin(&h.session)
	return nil
}

// endWrite makes h stop being the writer.
func (h logMode) endWrite() {
	db := h.db
	db.mu.Lock()
	defer db.mu.Unlock()
	h.strict = false
	db.owner.Store(nil)
	db.passOn(db.free())
}
