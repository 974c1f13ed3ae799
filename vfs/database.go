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
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
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

	main   chunked.File // the writer's
	header header       // of page 1, as the writer sees it
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

	far    bool   // reading ahead pays; see ahead.go
	hints  *hints // nil unless far
	untidy bool   // what a crash may have left is still to be removed; the writer's

	cause  atomic.Pointer[error] // the last error that SQLite was told
	failed atomic.Pointer[error] // set once: no operation succeeds any more
}

// newDatabase loads the state of a, and finishes what a crash left unfinished. opts are complete, or nil.
func newDatabase(ctx context.Context, name string, src chunked.Source, a *actorstore.Actor, opts *Options) (*database, error) {
	if opts == nil {
		defaults := opts.withDefaults()
		opts = &defaults
	}
	far := a != nil && a.Caches()
	if v, ok := src.(viewSource); ok && v.Far() {
		src, far = newFarView(v.View), true
	}
	db := &database{name: name, actor: a, source: src, opts: opts, log: opts.Logger, meter: newMeter(opts.Metrics), far: far}
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
	quick, done := db.preload(ctx)
	defer done()
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
	plain := db.main.Size() == 0 || bytes.HasPrefix(db.header[:], headerMagic)
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

// loadNamed is load for a database under keys of the older form, by name, if the
// actor has one: it must not look empty, and be written beside.
func (db *database) loadNamed(ctx context.Context) error {
	old, err := oldkeys.Find(ctx, db.source)
	if errors.Is(err, errkind.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	if old == nil {
		return db.main.RefuseUnsized(ctx)
	}
	db.source = old
	db.main.Reader, db.journal.file.Reader = old, old
	return db.main.Load(ctx)
}

// tidy finishes what a crash left unfinished, as far as that needs no SQLite.
func (db *database) tidy(ctx context.Context, hot, dead bool) error {
	old, named := db.source.(*oldkeys.Source)
	if named && hot {
		// Only its main file stays in the older form: what ends the journal, or
		// writes another one, needn't know of it.
		if err := db.mover(old).Move(ctx, &db.journal.file); err != nil {
			return err
		}
	}
	if err := db.collect(ctx, hot, dead); err != nil {
		return err
	}
	if named {
		db.journal.file.Reader = old.Stored()
	}
	return nil
}

// takeOver is called by the writer before the store first changes: a database of
// the older form is rewritten. Readers keep on reading meanwhile.
func (db *database) takeOver(ctx context.Context) error {
	old, ok := db.source.(*oldkeys.Source)
	if !ok {
		return nil
	}
	if err := db.mover(old).Move(ctx, &db.main); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.source = old.Stored()
	if db.main.Reader == actorstore.Reader(old) {
		db.main.Reader = old.Stored()
	}
	return nil
}

// mover returns what rewrites files of old.
func (db *database) mover(old *oldkeys.Source) *oldkeys.Mover {
	return &oldkeys.Mover{Source: old, Limits: db.actor.Limits(), Land: func(ctx context.Context, b *batch.Batch) error {
		return db.apply(ctx, b, false)
	}}
}

// loadHeader reads the start of page 1.
func (db *database) loadHeader(ctx context.Context) error {
	db.header = header{}
	_, err := db.main.ReadAt(ctx, db.header[:min(headerSize, db.main.Size())], 0)
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

// collect removes what a crash left: chunks beyond the end of a file, which only
// a commit in several parts can leave, and a journal that is over or a log that is
// dead, whole. Nobody would ever see them, but they count against the quota.
func (db *database) collect(ctx context.Context, hot, dead bool) error {
	var b batch.Batch
	b.Mode = batch.Ordered // whatever lands of it is good
	old, named := db.source.(*oldkeys.Source)
	if named {
		if err := old.Collect(ctx, &b, chunked.Count(db.main.Size())); err != nil {
			return err
		}
	} else if err := oldkeys.CollectStray(ctx, &b, db.source); err != nil {
		return err
	}
	if err := db.main.Collect(ctx, &b, db.source, chunked.Count(db.main.Size())); err != nil {
		return err
	}
	if err := db.collectBeside(ctx, &b, &db.journal.file, !hot); err != nil {
		return err
	}
	if err := db.collectBeside(ctx, &b, &db.wal.file, dead); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	if err := db.actor.Apply(ctx, &b); err != nil {
		return err
	}
	if !hot {
		db.journal.reset()
	}
	if dead {
		db.wal.reset()
	}
	return nil
}

// collectBeside is collect for a file beside the main file, all of it if it is over.
func (db *database) collectBeside(ctx context.Context, b *batch.Batch, f *chunked.File, over bool) error {
	from := chunked.Count(f.Size())
	if over {
		from = 0
		if f.Stored() >= 0 {
			b.Delete(f.Layout.AppendFileMeta(nil, f.Tag))
		}
	}
	return f.Collect(ctx, b, db.source, from)
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
