package vfs

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// A database is what all connections to one mounted name share. It has layers, each of which knows those below: what every
// part has (base), whose turn it is to write (turns), the committed states that readers hold (states), what lands batches
// (committer), the writer's files (writer), and here the log of WAL mode and what a crash left.
type database struct {
	writer
	wal sharedLog
	shm shmDir // +checklocks:mu

	ahead  *readahead.Database // nil on a near engine
	untidy bool                // what a crash may have left is still to be removed; the writer's
}

// newDatabase loads the state of a, and finishes what a crash left unfinished. opts are complete, or nil.
func newDatabase(ctx context.Context, name string, src chunked.Source, a *actorstore.Actor, opts *Options) (*database, error) {
	if opts == nil {
		defaults := opts.withDefaults()
		opts = &defaults
	}
	db := new(database)
	db.base = base{name: name, actor: a, opts: opts, log: opts.Logger, meter: newMeter(opts.Metrics), spoil: db.shm.spoil}
	db.source, db.before, db.logged = src, db.beforeCommit, db.wal.there
	db.wal.db = &db.writer
	db.ahead = readahead.New(src, a, &db.stats.ahead)
	db.far = db.ahead != nil
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

// load reads the state of the files.
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
	if db.torn = hot; hot {
		db.leftBehind()
	}
	return nil
}

// readFrom makes r the reader of the files.
func (db *database) readFrom(r actorstore.Reader) {
	db.main.Reader, db.journal.file.Reader, db.wal.file.Reader = r, r, r
}

// close lets go of what the database holds in the engine. It is idle.
func (db *database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.unwatch()
	db.unpin(db.cur) // still pinned if a journal was left behind
	db.meter.flush(&db.stats)
	db.removeIndex()
}

// removeIndex removes the shared memory, which no connection has open.
//
// +checklocks:db.mu
func (db *database) removeIndex() {
	if err := db.shm.remove(); err != nil {
		db.log.Warn("vfs: removing shared memory", "database", db.name, "error", err)
	}
}

// leftover says whether a journal is there that must be rolled back.
func (db *database) leftover() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.hot && db.journal.there()
}

// openHandle opens the main file for one connection.
func (db *database) openHandle(ctx context.Context, readOnly bool) *handle {
	db.opening.Lock()
	defer db.opening.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.handles++
	return &handle{
		db: db, ctx: ctx, readOnly: readOnly,
		session: session{settings: settings{mode: "delete", sync: syncFull}, told: new(toldMemory)},
		shm:     db.shm.open(), ahead: db.ahead.NewConn(),
	}
}

// closeHandle is called when a connection has closed the main file, and says whether no other one has it open. Then nothing writes, and what
// is kept for the next transaction is given back.
func (db *database) closeHandle() (last bool) {
	alone := db.opening.TryLock() // else another one is being opened, or a commit of this one was cut off
	db.mu.Lock()
	db.handles--
	last = db.handles == 0
	db.mu.Unlock()
	if alone {
		if last {
			chunked.Rest(&db.main, &db.journal.file)
		}
		db.opening.Unlock()
	}
	return last
}

// saw tells the hints of a page that was read or written, b at off, of a file with the header hdr.
func (db *database) saw(hdr *format.Header, b []byte, off int64, written bool) {
	if db.ahead != nil {
		db.ahead.Saw(hdr.PageSize(), hdr.Plain(), b, off, written)
	}
}

// keepHints stores the hints when the last connection closes.
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

// free says that connections which wait to write look again, instead of having their turn one by one.
//
// +checklocks:db.mu
func (db *database) free() bool { return db.hot || db.wal.users > 0 }

// beforeCommit is called before every commit of the database. It has work only on a far
// engine.
func (db *database) beforeCommit(ctx context.Context) error {
	if err := db.tidyLate(ctx); err != nil {
		return err
	}
	db.ahead.Ripen(chunked.Count(db.main.Size()))
	return nil
}

// report is the answer to PRAGMA greenroom_stats.
func (db *database) report() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s=%v\n", name, value) }
	s := reflect.ValueOf(db.stats.read())
	for i := range s.NumField() {
		line(snake(s.Type().Field(i).Name), s.Field(i).Interface())
	}
	db.mu.Lock()
	line("connections", db.handles)
	line("file_bytes", db.cur.size)
	db.mu.Unlock()
	db.wal.mem.RLock()
	line("log_bytes", db.wal.file.Size())
	db.wal.mem.RUnlock()
	if db.actor != nil {
		line("actor_commits", db.actor.Seq())
		line("actor_bytes", db.actor.Used())
		line("rows_read", db.actor.Rows())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// prepareNewest prefetches what is about to be read of f, whose stored chunks r reads. It does
// nothing if memory has the chunk at off because the store doesn't have it yet.
func (db *database) prepareNewest(ctx context.Context, ahead *readahead.Conn, f *chunked.File, r actorstore.Reader, off, n int64) {
	w := &db.wal
	w.mem.RLock() // the writer with a journal needs none, but is alone with it
	_, here := f.Overlay(nil, off)
	size := min(f.Size(), max(f.Stored(), 0))
	w.mem.RUnlock()
	if here {
		return
	}
	if r != actorstore.Reader(db.source) {
		ahead.Prepare(ctx, r, f.Tag, size, off, n)
		return
	}
	// In WAL mode, or when the store has parts of the transaction, the newest state is
	// what it reads.
	if s, err := db.source.Snapshot(ctx); err == nil {
		ahead.Prepare(ctx, s, f.Tag, size, off, n)
		_ = s.Close() // it asked the engine for nothing
	}
}
