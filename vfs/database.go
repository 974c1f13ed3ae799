package vfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// A database is what all connections to one mounted name share: the committed
// view that readers hold, the writer's files, and who the writer is.
//
// Everything that only the writer touches (main to subs) needs no lock:
// being the owner is the lock, and it changes hands under mu.
type database struct {
	name   string
	actor  *actorstore.Actor // nil: a read-only view
	source chunked.Source
	opts   *Options
	log    *slog.Logger
	stats  counters
	meter  *meter

	owner atomic.Pointer[handle] // the writer: who holds RESERVED or more; set under mu

	main   chunked.File  // the writer's
	header format.Header // of page 1, as the writer sees it
	batch  batch.Batch
	subs   []batch.Sub // scratch

	mu      sync.Mutex
	queue   []*waiter // connections that wait for their turn  +checklocks:mu
	turns   int64     // how often somebody became the writer  +checklocks:mu
	cur     *view     // the last committed state  +checklocks:mu
	handles int       // open connections  +checklocks:mu
	holders int       // those that hold SHARED or more  +checklocks:mu
	shm     shmDir    // +checklocks:mu
	aging             // +checklocks:mu

	// opening is held while a connection is opened, and by a writer that is alone while it
	// commits: closed says so. It is locked before mu.
	opening sync.Mutex
	closed  bool // +checklocks:mu

	// dirty: the store may differ from cur. hot: an unfinished transaction left
	// its journal behind, and the next reader rolls it back. torn: hot since
	// before this process, so that cur can't be read until that is done.
	dirty, hot, torn bool // +checklocks:mu

	journal journal
	wal     sharedLog

	ahead  *readahead.Database // nil on a near engine
	untidy bool                // what a crash may have left is still to be removed; the writer's

	cause  atomic.Pointer[error] // the last error that SQLite was told
	failed atomic.Pointer[error] // set once: no operation succeeds any more
}

// newDatabase loads the state of a, and finishes what a crash left unfinished. opts are complete, or nil.
func newDatabase(ctx context.Context, name string, src chunked.Source, a *actorstore.Actor, opts *Options) (*database, error) {
	if opts == nil {
		defaults := opts.withDefaults()
		opts = &defaults
	}
	db := &database{name: name, actor: a, source: src, opts: opts, log: opts.Logger, meter: newMeter(opts.Metrics)}
	db.ahead = readahead.New(src, a, &db.stats.ahead)
	db.main = chunked.File{Tag: actorstore.FileMain, Reader: src, Layout: src.Layout()}
	db.journal.file = chunked.File{Tag: actorstore.FileJournal, Reader: src, Layout: src.Layout()}
	db.wal.file = chunked.File{Tag: actorstore.FileWAL, Reader: src, Layout: src.Layout()}
	db.shm.init(opts.TempDir)
	if err := db.load(ctx); err != nil {
		return nil, fmt.Errorf("vfs: open %q: %w", name, err)
	}
	if err := db.recover(ctx); err != nil {
		db.close()
		return nil, fmt.Errorf("vfs: open %q: roll back the journal: %w", name, err)
	}
	return db, nil
}

func (db *database) load(ctx context.Context) error {
	fetched, found := db.ahead.Open(ctx)
	quick := fetched != nil
	if quick {
		db.untidy = found
		db.readFrom(fetched)
		defer db.readFrom(db.source)
	}
	if err := db.main.Load(ctx); err != nil {
		return err
	}
	if db.main.Stored() < 0 && !quick {
		if err := db.loadNamed(ctx); err != nil {
			return err
		}
	}
	if err := db.loadHeader(ctx); err != nil {
		return err
	}
	plain := db.main.Size() == 0 || bytes.HasPrefix(db.header[:], format.Magic)
	if err := db.journal.load(ctx, plain); err != nil {
		return err
	}
	hot := db.journal.storedLive && db.main.Size() > 0
	dead, err := db.wal.load(ctx, db.main.Size())
	if err != nil {
		return err
	}
	if db.actor != nil && !quick {
		if err := db.tidy(ctx, hot, dead); err != nil {
			return err
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.cur = &view{seq: 1, size: db.main.Size(), header: db.header}
	db.hot, db.torn = hot, hot
	if hot {
		db.leftBehind()
	}
	return nil
}

// readFrom has the files read from r.
func (db *database) readFrom(r actorstore.Reader) {
	db.main.Reader, db.journal.file.Reader, db.wal.file.Reader = r, r, r
}

// loadHeader reads the start of page 1.
func (db *database) loadHeader(ctx context.Context) error {
	db.header = format.Header{}
	_, err := db.main.ReadAt(ctx, db.header[:min(format.HeaderSize, db.main.Size())], 0)
	return err
}

// idle returns ErrBusy while connections are open.
func (db *database) idle() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.handles > 0 {
		return fmt.Errorf("%w: %q has %d", ErrBusy, db.name, db.handles)
	}
	return nil
}

// close lets go of what the database holds in the engine. It is idle.
func (db *database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.unwatch()
	db.unpin(db.cur) // still pinned if a journal was left behind
	db.meter.flush(&db.stats)
	db.shm.remove(db)
}

// exists says whether there is a database, as the last committed state says.
func (db *database) exists() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.cur.size > 0
}

// leftover says whether a journal is there that must be rolled back.
func (db *database) leftover() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.hot && db.journal.there()
}

// fail makes every later operation fail. The first reason stays.
func (db *database) fail(err error) {
	if db.failed.CompareAndSwap(nil, &err) {
		db.refusing(err)
		db.shm.spoil()
	}
}

// healthy returns ErrFailed, with its reason, after a failure, or when the actor
// has another owner: what memory holds of it is no longer true.
func (db *database) healthy() error {
	if db.actor != nil {
		if err := db.actor.Err(); err != nil {
			db.fail(err)
		}
	}
	if p := db.failed.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *p)
	}
	return nil
}

// owned is healthy, asked where SQLite is about to answer from its own cache: on an
// engine that other processes use, too, it finds out who the owner is.
func (db *database) owned(ctx context.Context) error {
	if db.actor != nil {
		if err := db.actor.Owned(ctx); err != nil && db.actor.Err() == nil {
			return err // not known, or closed
		}
	}
	return db.healthy()
}

// sqliteError remembers err for DB.Cause, and returns what SQLite should see.
func (db *database) sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err == nil {
		return nil
	}
	cause := err // a variable of its own: err would move to the heap also when it is nil
	db.cause.Store(&cause)
	return sqliteError(err, ioerr)
}

// sqliteError is the database's, of what this connection did: if it is the writer,
// its transaction turns back.
func (h *handle) sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err != nil && h.owns() {
		h.db.disarm(err)
	}
	h.tell(err, ioerr)
	return h.db.sqliteError(err, ioerr)
}

// tell remembers what SQLite is told, for the connection's pool.
func (h *handle) tell(err error, ioerr sqlite3.ExtendedErrorCode) {
	if err != nil && !ofSQLite(err) {
		h.told.tell(err, sqliteCode(err, ioerr))
	}
}

// ownerError is the database's sqliteError, of a file beside the main file, which only
// the writer changes.
func (db *database) ownerError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if h := db.owner.Load(); h != nil {
		h.tell(err, ioerr)
	}
	return db.sqliteError(err, ioerr)
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
