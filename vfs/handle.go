package vfs

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// A handle is the main database file as one connection has it open. SQLite uses
// it from one goroutine at a time.
type handle struct {
	db       *database
	ctx      context.Context
	readOnly bool

	level     sqlitevfs.LockLevel
	view      *view  // what is read; held from SHARED on
	mode      string // journal_mode, as far as PRAGMAs said
	exclusive bool   // locking_mode, likewise
	sync      syncLevel
	syncSet   bool // by a PRAGMA
	wantWrite bool // the transaction that starts is BEGIN IMMEDIATE or EXCLUSIVE
	logged    bool // it has the log open: WAL mode, see wal.go
	unstored  bool // it has written to the log what isn't stored
	strict    bool // it holds EXCLUSIVE as files do: nobody reads  +checklocks:database.mu
	window    bool // between BEGIN and COMMIT or ROLLBACK of an atomic write

	// counter is the change counter that this connection was last shown, and
	// counterSeq the view for which; shown is false while the numbers were not
	// made up. See counter.go.
	counter    uint32
	counterSeq uint64
	shown      bool

	shm  sqlitevfs.SharedMemory // nil where there is none
	conn any                    // the connection, once SQLite has said which
	busy func() bool            // asks its busy handler

	told   *toldMemory     // what SQLite was told, for its user; the connection's
	ended  bool            // this statement has stored the end of a transaction, or of a rollback
	staged *staged         // what lands with the transaction that is under way
	keys   keysWish        // of the function of that Update
	begun  bool            // BeginUpdate began, or is about to begin, the transaction
	ahead  *readahead.Conn // nil on a near engine

	closed bool

	key     []byte
	scratch chunked.Buf
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

// openHandle opens the main file for one connection.
func (db *database) openHandle(ctx context.Context, readOnly bool) *handle {
	db.opening.Lock()
	defer db.opening.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.handles++
	return &handle{
		db: db, ctx: ctx, readOnly: readOnly, mode: "delete", sync: syncFull,
		shm: db.shm.open(), ahead: db.ahead.NewConn(), told: new(toldMemory),
	}
}

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
		err = (&walFile{h: h}).Close()
	}
	err = errors.Join(err, h.Unlock(sqlitevfs.LOCK_NONE))
	h.leave()
	h.ahead.Close()
	h.db.mu.Lock()
	h.db.handles--
	last := h.db.handles == 0
	h.db.mu.Unlock()
	if last {
		h.db.keepHints(h.ctx)
	}
	return err
}

// owns says whether this connection is the writer. Only h itself makes that true
// or false.
func (h *handle) owns() bool { return h.db.owner.Load() == h }

// ReadAt reads the writer's state for the writer, and for everybody else the
// committed state of its transaction's start.
func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	db := h.db
	if err := db.healthy(); err != nil {
		return 0, h.readError(err)
	}
	if h.logged {
		return h.readLogged(b, off)
	}
	if h.owns() {
		n, err := 0, error(nil)
		if fromHeader(len(b), off, db.main.Size()) {
			n = copy(b, db.header[off:])
		} else {
			if err = h.pinWriter(); err == nil {
				if h.ahead != nil {
					h.prepareNewest(&db.main, db.main.Reader, off, int64(len(b)))
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

// saw tells the hints of a page that was read or written, b at off, of a file with the header hdr.
func (db *database) saw(hdr *format.Header, b []byte, off int64, written bool) {
	if db.ahead != nil {
		db.ahead.Saw(hdr.PageSize(), hdr.Plain(), b, off, written)
	}
}

// keepHints has the hints stored, when the last connection is closed.
func (db *database) keepHints(ctx context.Context) {
	if db.ahead == nil || db.healthy() != nil {
		return
	}
	db.mu.Lock()
	end := chunked.Count(db.cur.size)
	db.mu.Unlock()
	if err := db.ahead.Keep(ctx, end); err != nil {
		db.log.Debug("vfs: hints of what is read first were not stored", "database", db.name, "error", err)
	}
}

// pinWriter lets the writer, too, read from its view's snapshot until it changes
// the store: it will be made before that in any case, and is quicker to read.
func (h *handle) pinWriter() error {
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

// prepareNewest has fetched what is about to be read of f, whose stored chunks are r's,
// unless memory has it because it isn't stored yet.
func (h *handle) prepareNewest(f *chunked.File, r actorstore.Reader, off, n int64) {
	w := &h.db.wal
	w.mem.RLock() // the writer with a journal needs none, but is alone with it
	_, here := f.Overlay(nil, off)
	size := min(f.Size(), max(f.Stored(), 0))
	w.mem.RUnlock()
	if here {
		return
	}
	if r != actorstore.Reader(h.db.source) {
		h.ahead.Prepare(h.ctx, r, f.Tag, size, off, n)
		return
	}
	// In WAL mode, or when the store has parts of the transaction, the newest state is
	// what it reads.
	if s, err := h.db.source.Snapshot(h.ctx); err == nil {
		h.ahead.Prepare(h.ctx, s, f.Tag, size, off, n)
		_ = s.Close() // it asked the engine for nothing
	}
}

// fromHeader says whether a read lies within the header that memory holds.
func fromHeader(n int, off, size int64) bool {
	return off+int64(n) <= min(format.HeaderSize, size)
}

// readView reads chunks of the committed state v.
func (h *handle) readView(v *view, b []byte, off int64) (int, error) {
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
func (h *handle) readPinned(r actorstore.Reader, v *view, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < v.size {
		pos := off + int64(n)
		i, at := uint32(pos/chunked.Size), int(pos%chunked.Size)
		want := min(len(b)-n, chunked.Size-at, int(min(v.size-pos, chunked.Size)))
		h.key = r.Layout().AppendFileChunk(h.key[:0], actorstore.FileMain, i)
		got, err := chunked.Read(h.ctx, r, h.key, b[n:n+want], at, &h.scratch)
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

// WriteAt keeps b in memory. When it grows large, it reaches the store in parts,
// if there is a journal to undo that: not within an atomic write, and not in
// journal_mode=MEMORY, whose undo is lost with the connection.
func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	db := h.db
	if h.logged {
		return h.writeLogged(b, off)
	}
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
// A header that says that the file needs a WAL, which a restored backup may have too,
// is changed to one that doesn't where there is no shared memory: no connection could
// open it again. The bytes in SQLite's cache stay what they are, so this connection,
// too, must read them anew.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func (h *handle) wroteHeader(b []byte, off int64) {
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
func (h *handle) writable() error {
	if err := h.db.healthy(); err != nil {
		return err
	}
	if !h.owns() {
		return errNotOwner
	}
	return nil
}

// Truncate sets the size of the file. It is stored with what comes next: the
// commit, or COMMIT_PHASETWO for the truncation that follows one.
func (h *handle) Truncate(size int64) error {
	if h.logged {
		return h.truncateLogged(size)
	}
	err := h.writable()
	if err == nil {
		err = h.db.resizeMain(h.ctx, size)
	}
	return h.sqliteError(err, sqlite3.IOERR_TRUNCATE)
}

// resizeMain makes the main file, as the writer sees it, longer or shorter.
func (db *database) resizeMain(ctx context.Context, size int64) error {
	err := db.main.Resize(ctx, size)
	if err == nil && size < format.HeaderSize {
		clear(db.header[max(size, 0):])
	}
	return err
}

// Sync has work only when no journal guards the transaction: otherwise its
// commit point is the journal's end, and that is durable itself. For a journal it is the
// last moment to refuse a COMMIT, and have it rolled back as usual.
func (h *handle) Sync(sqlitevfs.SyncFlag) error {
	if h.logged {
		return h.syncLogged()
	}
	if !h.owns() {
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

// Size is the size of the state that ReadAt reads.
func (h *handle) Size() (int64, error) {
	if h.logged {
		return h.db.wal.size(&h.db.main)
	}
	size, _ := h.seen()
	return size, nil
}

// seen returns the size and the header of the state that h reads without a log: the
// writer's, that of its view, or the newest one.
func (h *handle) seen() (int64, *format.Header) {
	if h.owns() {
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

// SectorSize is one chunk: what the store never tears.
func (h *handle) SectorSize() int { return chunked.Size }

// characteristics hold for every file of an actor, because a chunk is stored
// whole or not at all and no size is stored before what it covers. SEQUENTIAL
// isn't claimed: SQLite would not ask for the syncs that order its files then.
//
// https://sqlite.org/c3ref/c_iocap_atomic.html
const characteristics = sqlitevfs.IOCAP_POWERSAFE_OVERWRITE |
	sqlitevfs.IOCAP_SAFE_APPEND | sqlitevfs.IOCAP_SUBPAGE_READ

// DeviceCharacteristics offers the atomic batch write for files that are plain
// SQLite. The others need the change counter that SQLite itself keeps, and its
// atomic commit doesn't move that.
func (h *handle) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	if !h.plain() {
		return characteristics
	}
	return characteristics | sqlitevfs.IOCAP_BATCH_ATOMIC
}

// plain says whether the file is plain SQLite, or empty.
func (h *handle) plain() bool {
	size, header := h.seen()
	return size == 0 || header.Plain()
}
