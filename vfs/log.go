package vfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
)

// In journal_mode=WAL SQLite appends the changes of a transaction to a log, tag 2, and a checkpoint
// copies them to the main file. SQLite's index of the log in shared memory decides which connection
// reads what, so the views and locks of lock.go are not used, and all connections share the newest
// state of both files.
//
// What a checkpoint writes is stored before SQLite overwrites the log from its start, truncates it
// or deletes it. So the main file always has the content of a log that goes, and only a COMMIT with
// synchronous=FULL has to wait for stable storage. What SQLite appends to the log may be stored
// first, even if the checkpoint is refused.
//
// https://sqlite.org/wal.html

// A sharedLog is the write-ahead log of a database, and what its users share.
type sharedLog struct {
	db *writer // of the main file

	// write is held by a goroutine that changes one of the two files or stores it, also while
	// the engine works. It is taken before mem and database.mu.
	write sync.Mutex
	// mem is held while what memory has of the two files is looked at or changed.
	mem sync.RWMutex

	file   chunked.File // changed under both locks
	stored atomic.Int64 // file.stored, for crowded
	exists bool         // +checklocks:mem

	frame     int64 // length of a frame, 0 when it can't be known: encrypted  +checklocks:write
	commitEnd int64 // the end of the frame that commits, once its header was written  +checklocks:write
	committed bool  // the end of a transaction is in memory  +checklocks:write
	next      int64 // where the last write ended  +checklocks:write

	// schema is the version of the schema by the first page that was written last. schemaNew says that the store does not say it.
	schema    uint64 // +checklocks:write
	schemaNew bool   // +checklocks:write
	page      uint32 // of the frame at pageAt, whose header was written last  +checklocks:write
	pageAt    int64  // +checklocks:write

	// kept says why the main file lacks what the log has, though SQLite was told
	// otherwise; nil if it doesn't.
	kept error // +checklocks:write

	tail   *chunked.Buf // the stored content of chunk tailOf, where the next frame goes  +checklocks:write
	tailOf int64        // +checklocks:write

	// restarted: the log is written from its start again, or truncated, and that isn't
	// stored. What it had must be in the main file first.
	restarted bool // +checklocks:write

	users int // connections that have the log open  +checklocks:database.mu
}

// errKept: SQLite deletes a log of which the main file lacks a part.
var errKept = errors.New("vfs: the log of the database can't be removed, a checkpoint of it failed")

// load reads the log's state from the store. A log that is empty, or beside an empty
// main file, is dead: nothing is ever read from it.
func (w *sharedLog) load(ctx context.Context, mainSize int64) (dead bool, err error) {
	w.write.Lock()
	defer w.write.Unlock()
	w.mem.Lock()
	defer w.mem.Unlock()
	if err := w.file.Load(ctx); err != nil {
		return false, err
	}
	w.stored.Store(w.file.Stored())
	dead = w.file.Size() == 0 || mainSize == 0
	w.exists = w.file.Stored() >= 0 && !dead
	w.frame, w.tailOf = 0, -1
	var head [format.LogHeaderSize]byte
	if dead || w.file.Size() < format.LogHeaderSize {
		return dead, nil
	}
	if _, err := w.file.ReadAt(ctx, head[:], 0); err != nil {
		return false, err
	}
	w.frame = format.FrameSize(head[:])
	return false, nil
}

// reset records that the log is gone, in memory and in the store.
func (w *sharedLog) reset() {
	w.write.Lock()
	defer w.write.Unlock()
	w.removed()
}

// removed is reset.
//
// +checklocks:w.write
func (w *sharedLog) removed() {
	w.mem.Lock()
	defer w.mem.Unlock()
	w.file.Removed()
	w.stored.Store(0)
	w.exists, w.frame, w.committed, w.restarted, w.kept, w.tailOf = false, 0, false, false, nil, -1
}

// size returns the size of f, one of the two files, as the newest state has it.
func (w *sharedLog) size(f *chunked.File) (int64, error) {
	w.mem.RLock()
	defer w.mem.RUnlock()
	return f.Size(), nil
}

// there says whether the log exists.
func (w *sharedLog) there() bool {
	w.mem.RLock()
	defer w.mem.RUnlock()
	return w.exists
}

// note follows a write of b at off, and says whether a transaction ends with it.
//
// +checklocks:w.write
func (w *sharedLog) note(b []byte, off int64) (end bool) {
	if off == 0 && len(b) >= format.LogHeaderSize {
		w.frame = format.FrameSize(b)
	}
	w.restarted = w.restarted || off == 0
	w.next = off + int64(len(b))
	if w.frame == 0 {
		return false
	}
	if len(b) >= format.FrameCommitAt+4 && off >= format.LogHeaderSize && (off-format.LogHeaderSize)%w.frame == 0 {
		w.commitEnd, w.page, w.pageAt = 0, binary.BigEndian.Uint32(b), off
		if binary.BigEndian.Uint32(b[format.FrameCommitAt:]) != 0 {
			w.commitEnd = off + w.frame
		}
	}
	if w.page == 1 && off == w.pageAt+format.FrameHeaderSize { // SQLite keeps it in its cache until a transaction ends
		w.schema, w.schemaNew = format.UserVersion(b), true
	}
	end = w.commitEnd > 0 && w.next == w.commitEnd
	// A header that is written anew, with another checksum, follows its page.
	w.committed = w.committed || end || w.commitEnd > off && w.file.Size() >= w.commitEnd
	return end
}

// prime gives the overlay the chunk in which the stored log ends, so that appending to
// it needs no read.
//
// +checklocks:w.write
// +checklocks:w.mem
func (w *sharedLog) prime(off int64) {
	if i := off / chunked.Size; i == w.tailOf {
		w.file.Prime(uint32(i), w.tail)
	}
}

// keepTail remembers the chunk at which writing goes on, before the overlay is emptied.
//
// +checklocks:w.write
func (w *sharedLog) keepTail() {
	i := w.next / chunked.Size
	p := w.file.Page(uint32(i))
	if p == nil {
		w.tailOf = -1
		return
	}
	if w.tail == nil {
		w.tail = new(chunked.Buf)
	}
	*w.tail, w.tailOf = *p, i
}

// store stores what is new in f, atomically if that can be, and waits for stable
// storage if durable says so. Readers go on meanwhile. The quota doesn't bound the main
// file, because the log that fills it up can't be freed before the main file has its pages.
//
// +checklocks:w.write
func (w *sharedLog) store(ctx context.Context, f *chunked.File, durable bool) error {
	db := w.db
	b := db.staging(f, chunked.MaxChunks)
	ended := f == &w.file && w.committed && w.schemaNew
	if ended {
		db.actor.StageSchema(b, w.schema)
	}
	if err := db.fits(b); tooLarge(err) {
		b.Mode = batch.Ordered
	} else if err != nil {
		return err
	}
	b.OverQuota = f == &db.main
	err := db.write(ctx, b, durable, nil)
	if part := (*batch.OrderedError)(nil); errors.As(err, &part) {
		db.fail(err)
	}
	if ended && err == nil {
		w.schemaNew = false
	}
	db.meter.flush(&db.stats) // in WAL mode SQLite keeps its lock from one transaction to the next
	if err == nil {
		db.shed()
	}
	return err
}

// full says whether f has as much in memory as a transaction may.
//
// +checklocks:w.write
func (w *sharedLog) full(f *chunked.File) bool {
	return int64(f.Pending())*chunked.Size >= w.db.opts.TxMemory
}

// crowded says whether the log takes more than the room that its actor has left. It is then time for a checkpoint, and for the
// log to become shorter when it begins again.
func (w *sharedLog) crowded() bool {
	stored, a := w.stored.Load(), w.db.actor
	return stored > 0 && a != nil && stored > a.Limits().Storage-a.Used()
}

// storeMain stores what checkpoints have written to the main file. Connections that
// began to read before the database went over to the log keep their view.
//
// +checklocks:w.write
func (w *sharedLog) storeMain(ctx context.Context) error {
	db := w.db
	if !db.main.Changed() {
		return nil
	}
	if err := db.beginChange(ctx, false); err != nil {
		return err
	}
	err := w.store(ctx, &db.main, false)
	if err == nil {
		w.mem.Lock()
		db.main.Settled()
		w.mem.Unlock()
		db.stats.checkpoints.Add(1)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err == nil {
		db.publishMain(nil)
	} else {
		db.dirty = false // if anything landed the database has failed
	}
	return err
}

// storeLog stores what is new in the log. If it begins again, what checkpoints have
// written goes first. If that is refused the transaction under way is forgotten: SQLite
// will roll it back.
//
// +checklocks:w.write
func (w *sharedLog) storeLog(ctx context.Context, durable bool) error {
	if !w.file.Changed() {
		return nil
	}
	var err error
	if w.restarted {
		err = w.storeMain(ctx)
	}
	if err == nil {
		err = w.store(ctx, &w.file, durable)
	}
	if err == nil && w.committed {
		w.db.stats.logCommits.Add(1)
	}
	w.mem.Lock()
	defer w.mem.Unlock()
	if err != nil {
		w.file.Revert()
		w.commitEnd, w.tailOf, w.schemaNew = 0, -1, false
	} else {
		w.keepTail()
		w.file.Settled()
		w.stored.Store(w.file.Stored())
	}
	w.committed, w.restarted = false, false
	return err
}

// delete removes the log, which no connection has open any more. SQLite has copied all of
// it to the main file.
func (w *sharedLog) delete(ctx context.Context) error {
	db := w.db
	w.write.Lock()
	defer w.write.Unlock()
	if err := db.healthy(); err != nil {
		return err
	}
	if !w.there() {
		return sqlite3.IOERR_DELETE_NOENT
	}
	db.mu.Lock()
	users := w.users
	db.mu.Unlock()
	switch {
	case users > 0 || db.actor == nil:
		return errNotOwner
	case w.kept != nil:
		err := fmt.Errorf("%w: %w", errKept, w.kept)
		db.fail(err)
		return err
	}
	if w.file.Stored() >= 0 {
		b := db.fresh(batch.Ordered)
		w.file.StageDelete(&b.Group)
		if err := db.apply(ctx, b); err != nil {
			return err
		}
	}
	w.removed()
	return nil
}

// overlaid returns the beginning of b that lies in one chunk of f, at off, nothing
// beyond the end. It is filled if memory has the chunk.
func (w *sharedLog) overlaid(f *chunked.File, b []byte, off int64) (piece []byte, found bool) {
	w.mem.RLock()
	defer w.mem.RUnlock()
	return f.Overlay(b, off)
}
