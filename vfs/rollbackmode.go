package vfs

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A rollbackMode is the main file of a connection that isn't in WAL mode: one that reads committed states, or the writer, whose
// transactions a rollback journal can undo.
type rollbackMode struct{ *handle }

var _ mode = rollbackMode{}

// readAt reads the writer's state for the writer, and for all others the
// committed state of its transaction's start.
func (h rollbackMode) readAt(b []byte, off int64) (int, error) {
	db := h.db
	if h.db.owns(&h.session) {
		n, err := 0, error(nil)
		if fromHeader(len(b), off, db.main.Size()) {
			n = copy(b, db.header[off:])
		} else {
			if err = h.pinWriter(); err == nil {
				if h.ahead != nil {
					h.db.prepareNewest(h.ctx, h.ahead, &db.main, db.main.Reader, off, int64(len(b)))
				}
				n, err = db.main.ReadAt(h.ctx, b, off)
			}
		}
		h.overlayCounter(b[:n], off, &db.header, h.view)
		db.saw(&db.header, b[:n], off, false)
		return n, h.readError(err)
	}
	v := h.view
	if v == nil { // SQLite reads the header when it opens a file, under no lock
		db.mu.Lock()
		v = db.acquire()
		db.mu.Unlock()
		defer func() {
			db.mu.Lock()
			db.release(v)
			db.mu.Unlock()
		}()
	}
	n, err := 0, error(nil)
	if fromHeader(len(b), off, v.size) {
		n = copy(b, v.header[off:])
	} else {
		n, err = h.readView(v, b, off)
	}
	h.overlayCounter(b[:n], off, &v.header, v)
	db.saw(&v.header, b[:n], off, false)
	return n, h.readError(err)
}

// pinWriter lets the writer, too, read from its view's snapshot until it changes
// the store: it will be made before that in any case, and is quicker to read.
func (h rollbackMode) pinWriter() error {
	db := h.db
	// Only the writer, which this is, changes dirty and torn.
	if db.dirty || db.torn || db.main.Reader != actorstore.Reader(db.source) {
		return nil
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.pin(h.ctx, h.view); err != nil {
		return err
	}
	// The current view's snapshot stays as long as there is a writer.
	db.main.Reader = h.view.snap.Load().Snapshot
	return nil
}

// fromHeader says whether a read lies within the header that memory holds.
func fromHeader(n int, off, size int64) bool {
	return off+int64(n) <= min(format.HeaderSize, size)
}

// readView reads chunks of the committed state v.
func (h rollbackMode) readView(v *view, b []byte, off int64) (int, error) {
	p, err := h.db.pinned(h.ctx, v)
	if err != nil {
		return 0, err
	}
	h.ahead.Prepare(h.ctx, p.Snapshot, actorstore.FileMain, v.size, off, int64(len(b)))
	n, err := h.readPinned(p, v, b, off)
	h.db.leave(p)
	return n, err
}

// readPinned is readView with v's snapshot.
func (h rollbackMode) readPinned(r actorstore.Reader, v *view, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < v.size {
		pos := off + int64(n)
		i, at := uint32(pos/chunked.Size), int(pos%chunked.Size)
		want := min(len(b)-n, chunked.Size-at, int(min(v.size-pos, chunked.Size)))
		h.key = r.Layout().AppendFileChunk(h.key[:0], actorstore.FileMain, i)
		got, err := chunked.Read(h.ctx, r, h.key, b[n:n+want], at)
		if err != nil {
			return n, err
		}
		h.db.main.Learn(i, got)
		h.db.stats.pageReads.Add(1)
		n += want
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// writeAt keeps b in memory. When it grows large, it reaches the store in parts,
// if there is a journal to undo that: not within an atomic write, and not in
// journal_mode=MEMORY, whose undo is lost with the connection.
func (h rollbackMode) writeAt(b []byte, off int64) (int, error) {
	db := h.db
	if err := h.writable(); err != nil {
		return 0, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	n, err := db.main.WriteAt(h.ctx, b, off)
	if err != nil {
		return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if off < format.HeaderSize {
		h.wroteHeader(b, off)
	}
	db.saw(&db.header, b, off, true)
	if !h.window && db.journal.active() {
		err = db.spill(h.ctx)
	}
	return n, h.sqliteError(err, sqlite3.IOERR_WRITE)
}

// wroteHeader follows a write of b at off that changed the header.
//
// On a platform without shared memory a header in WAL mode, which a restored backup may have, is
// changed to rollback mode: otherwise no connection could open the file again. The bytes in
// SQLite's cache stay the same, so this connection must also read them again.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func (h rollbackMode) wroteHeader(b []byte, off int64) {
	page := h.db.main.Page(0)
	if off == 0 && len(b) >= format.HeaderSize {
		h.counter = binary.BigEndian.Uint32(b[format.CounterAt:])
		if h.shm == nil && !h.exclusive && (*format.Header)(page[:format.HeaderSize]).Logged() {
			page[format.WriteVersionAt], page[format.ReadVersionAt] = 1, 1
			h.counter++
		}
	}
	copy(h.db.header[:], page[:format.HeaderSize])
}

// writable returns an error unless h may write.
func (h rollbackMode) writable() error {
	if err := h.db.healthy(); err != nil {
		return err
	}
	if !h.db.owns(&h.session) {
		return errNotOwner
	}
	return nil
}

// truncate sets the size of the file. It is stored with what comes next: the
// commit, or COMMIT_PHASETWO for the truncation that follows one.
func (h rollbackMode) truncate(size int64) error {
	err := h.writable()
	if err == nil {
		err = h.db.resizeMain(h.ctx, size)
	}
	return h.sqliteError(err, sqlite3.IOERR_TRUNCATE)
}

// syncFile stores the file only if no journal guards the transaction: otherwise the end of the
// journal is the commit point, and is itself durable. With a journal this is the last moment to
// refuse a COMMIT, so that SQLite rolls it back as usual.
func (h rollbackMode) syncFile() error {
	if !h.db.owns(&h.session) {
		return nil
	}
	err := h.ownCommit()
	if err == nil && h.db.journal.active() {
		return nil
	}
	if err == nil {
		err = h.db.healthy()
	}
	if err != nil {
		return h.sqliteError(err, sqlite3.IOERR_FSYNC)
	}
	return h.sqliteError(h.db.landMain(h.ctx), sqlite3.IOERR_FSYNC)
}

// size is the size of the state that readAt reads.
func (h rollbackMode) size() (int64, error) {
	size, _ := h.seen()
	return size, nil
}

// seen returns the size and the header of the state that h reads without a log: the
// writer's, that of its view, or the newest one.
func (h rollbackMode) seen() (int64, *format.Header) {
	if h.db.owns(&h.session) {
		return h.db.main.Size(), &h.db.header
	}
	v := h.view
	if v == nil {
		h.db.mu.Lock()
		v = h.db.cur
		h.db.mu.Unlock()
	}
	return v.size, &v.header
}

// becomeWriter makes this connection the writer, unless there is one, or what it
// has read isn't the newest state any more.
func (h rollbackMode) becomeWriter() error {
	db := h.db
	if db.owns(&h.session) {
		return nil
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case h.view != db.cur:
		db.stats.busySnapshot.Add(1)
		return sqlite3.BUSY_SNAPSHOT
	case db.owner.Load() != nil, db.wal.users > 0:
		db.stats.busyWriter.Add(1)
		return sqlite3.BUSY
	}
	db.begin(&h.session)
	return nil
}

// lockReserved makes this connection the writer of the state that it reads.
func (h rollbackMode) lockReserved() error {
	err := h.becomeWriter()
	if err == nil {
		err = h.undoFirst()
	}
	return err
}

// undoFirst is called by the writer before anything else: if a journal is left of a first
// transaction, which failed after a part of it was stored, it empties the file again and
// removes the journal. SQLite doesn't do that: where the committed file is empty it takes
// any journal for that of another file, which it removes unread, and goes on if that fails.
// So h isn't the writer unless this succeeds.
//
// https://sqlite.org/lockingv3.html#hot_journals
func (h rollbackMode) undoFirst() error {
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
//
// +checklocks:h.db.mu
func (h rollbackMode) lockExclusive(db *database) error {
	switch {
	case db.owner.Load() != nil, db.wal.users > 0:
		db.stats.busyWriter.Add(1)
		return sqlite3.BUSY
	case h.view != db.cur:
		db.stats.busySnapshot.Add(1)
		return sqlite3.BUSY_SNAPSHOT
	case db.torn && db.cur.refs > 1:
		return sqlite3.BUSY // the others would read the store while it changes
	}
	db.begin(&h.session)
	return nil
}

// endWrite makes h stop being the writer. Whatever it left in memory is dropped:
// what was committed is stored, and what was rolled back never was, or its
// journal says so.
func (h rollbackMode) endWrite() {
	db := h.db
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
		db.leftBehind()
	case db.dirty || db.hot:
		db.publishMain(&h.hold)
	}
	db.admit()
	db.main.Reader = db.source
	db.shed()
	h.strict = false
	db.owner.Store(nil)
	db.passOn(db.free())
}

// committed follows every commit, after the journal's end and after the
// truncation that may follow it: from now on readers see the new state, also
// with locking_mode=EXCLUSIVE, which never unlocks.
func (h rollbackMode) committed() error {
	db := h.db
	if !h.db.owns(&h.session) {
		return nil
	}
	if err := db.healthy(); err != nil {
		return h.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if db.journal.active() {
		// The end of the journal wasn't recognised: a VFS on top encrypted the zeroed header of
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
	db.publishMain(&h.hold)
	return nil
}

// landRest stores what a commit leaves to COMMIT_PHASETWO: a truncation, which need
// not be waited for, or with synchronous=OFF and no journal everything.
func (h rollbackMode) landRest() error {
	if h.db.main.Pending() == 0 {
		return h.db.flushMain(h.ctx)
	}
	return h.db.landMain(h.ctx)
}

// stage lets s land with the transaction that h has begun.
func (h rollbackMode) stage(s *staged) error {
	switch {
	case h.logged:
		return fmt.Errorf("%w: Update in journal_mode=WAL, it needs DELETE", ErrUnsupported)
	case h.mode != "delete":
		return fmt.Errorf("%w: Update in journal_mode=%s, it needs DELETE", ErrUnsupported, h.mode)
	case h.exclusive:
		return fmt.Errorf("%w: Update in locking_mode=EXCLUSIVE, it needs NORMAL", ErrUnsupported)
	case h.sync == syncOff:
		return fmt.Errorf("%w: Update with synchronous=OFF, it needs at least NORMAL", ErrUnsupported)
	case !h.db.owns(&h.session) || h.level < sqlitevfs.LOCK_RESERVED:
		return errNotOwner
	}
	h.staged, h.keys = s, keysWish{}
	return nil
}
