package vfs

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// A writer is the file of a database as the connection sees it that writes, and the way of its transactions to the store: as one
// commit where that can be, and otherwise in parts, which the journal can undo.
//
// Being the owner is the lock for its fields; it changes hands under mu.
type writer struct {
	committer
	main    chunked.File
	header  format.Header // of page 1
	journal journal
	logged  func() bool // says whether there is a log, whose newest transaction may have another schema
}

// beginChange is called by the writer before the store first changes in a
// transaction: readers keep the state they have. whole says that the change is one commit of
// the engine, which ends the transaction and waits for no connection; see alone.
func (db *writer) beginChange(ctx context.Context, whole bool) error {
	if err := db.takeOver(ctx); err != nil {
		return err
	}
	first, err := db.change(ctx, whole)
	if first {
		db.main.Reader = db.source // from now on only the newest state is the writer's
	}
	return err
}

// publishMain makes the writer's state the one that readers see from now on. h is its hold, nil if it has none.
//
// +checklocks:db.mu
func (db *writer) publishMain(h *hold) {
	db.publish(db.main.Size(), &db.header, h)
	db.main.Reader = db.source
}

// takeOver is called by the writer before the store first changes: a database of
// the older form is rewritten. Readers keep on reading meanwhile.
func (db *writer) takeOver(ctx context.Context) error {
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
func (db *writer) mover(old *oldkeys.Source) *oldkeys.Mover {
	return &oldkeys.Mover{Source: old, Limits: db.actor.Limits(), Land: func(ctx context.Context, b *batch.Batch) error {
		return db.apply(ctx, b)
	}}
}

// loadHeader reads the start of page 1.
func (db *writer) loadHeader(ctx context.Context) error {
	db.header = format.Header{}
	_, err := db.main.ReadAt(ctx, db.header[:min(format.HeaderSize, db.main.Size())], 0)
	return err
}

// resizeMain makes the main file, as the writer sees it, longer or shorter.
func (db *writer) resizeMain(ctx context.Context, size int64) error {
	err := db.main.Resize(ctx, size)
	if err == nil && size < format.HeaderSize {
		clear(db.header[max(size, 0):])
	}
	return err
}

// storeOrdered stores what is new in f in as many parts as the limits ask for,
// the size record last. It doesn't wait for stable storage.
func (db *writer) storeOrdered(ctx context.Context, f *chunked.File) error {
	b := db.fresh(batch.Ordered)
	if f.Tag == actorstore.FileMain {
		f.Announce(b)
		if v, changed := schemaChange(f); changed {
			db.actor.StageSchema(b, v)
		}
	}
	f.Stage(b, 0, chunked.MaxChunks)
	f.StageSize(b.Final())
	// A part of the journal means nothing without the size behind it, and the journal can undo a part of the main file.
	var learn []*chunked.File
	if f != &db.main || db.journal.isStoredLive() {
		learn = []*chunked.File{f}
	}
	if err := db.apply(ctx, b, learn...); err != nil {
		return err
	}
	f.Settled()
	return nil
}

// flushMain stores what is new in the main file, after the journal that can
// undo it. It doesn't wait for stable storage.
func (db *writer) flushMain(ctx context.Context) error {
	if !db.main.Changed() {
		return nil
	}
	if err := db.flushJournal(ctx); err != nil {
		return err
	}
	if err := db.beginChange(ctx, false); err != nil {
		return err
	}
	return db.storeOrdered(ctx, &db.main)
}

// spill stores what is in memory, journal first, when that has become more than the
// bound. It is asked after every write that a journal can undo.
func (db *writer) spill(ctx context.Context) error {
	held := db.main.Pending() + db.journal.buffered()
	if int64(held)*chunked.Size < db.opts.TxMemory {
		return nil
	}
	db.stats.spills.Add(1)
	if err := db.flushJournal(ctx); err != nil {
		return err
	}
	return db.flushMain(ctx)
}

// landMain lands what is new in the main file when no journal guards it: in
// journal_mode=MEMORY, or when the journal is already over. It is one atomic commit
// if the limits allow that at all. If not, it is stored in parts, which SQLite
// documents for this mode: a crash or a failure between them leaves a damaged file.
//
// https://sqlite.org/pragma.html#pragma_journal_mode
func (db *writer) landMain(ctx context.Context) error {
	err := db.commitAll(ctx)
	if !tooLarge(err) {
		return err
	}
	if err := db.flushMain(ctx); err != nil {
		return err
	}
	if h := db.owner.Load(); h != nil && h.syncLevel() < syncFull {
		return nil
	}
	return db.durable(ctx)
}

// staging returns a carrier with what is new in f, of its chunks those below number to.
func (db *writer) staging(f *chunked.File, to int64) *batch.Batch {
	b := db.carrier()
	if v, changed := schemaChange(f); changed && f == &db.main && !db.logged() { // whose newest transaction may have another one
		db.actor.StageSchema(b, v)
	}
	f.Stage(b, 0, to)
	f.StageSize(b.Final())
	return b
}

// commitAll lands what is new in the main file with one atomic, durable commit, after
// others that aren't seen if that is too large. When it can't be done so, it says so
// (tooLarge), and nothing has changed.
func (db *writer) commitAll(ctx context.Context) error {
	err := db.commitMain(ctx)
	if tooLarge(err) {
		err = db.commitInParts(ctx)
	}
	return err
}

// commitMain lands what is new in the main file as one atomic, durable commit.
// When that is too large it changes nothing and says so (tooLarge).
func (db *writer) commitMain(ctx context.Context) error {
	if !db.main.Changed() {
		return nil
	}
	s := db.landing()
	if err := db.beginChange(ctx, s == nil || !batch.Attended(s.batch)); err != nil {
		return err
	}
	if err := db.commit(ctx, db.staging(&db.main, chunked.MaxChunks)); err != nil {
		db.unchanged()
		return err
	}
	db.main.Settled()
	return nil
}

// commitInParts is commitMain for what is too large for it: the chunks beyond
// the committed size go first, because they aren't seen until the size record
// lands with the rest.
func (db *writer) commitInParts(ctx context.Context) error {
	f := &db.main
	split := chunked.Count(max(f.Stored(), 0))
	if f.Size() <= f.Stored() || f.Pending() == 0 {
		return batch.ErrTooLarge
	}
	b := db.staging(f, split)
	err := db.fits(b)
	b.Rewind(err)
	if err != nil {
		return err
	}
	if err := db.beginChange(ctx, false); err != nil {
		return err
	}
	if err := db.appendChunks(ctx, split); err != nil {
		return err
	}
	if err := db.commit(ctx, db.staging(f, split)); err != nil {
		return errors.Join(err, db.dropAppended(ctx, split))
	}
	f.Settled()
	return nil
}

// appendChunks stores the new chunks from number from on.
func (db *writer) appendChunks(ctx context.Context, from int64) error {
	b := db.fresh(batch.Ordered)
	db.main.Announce(b)
	db.main.Stage(b, from, chunked.MaxChunks)
	if err := db.apply(ctx, b, &db.main); err != nil {
		return err // the next owner removes a part that landed, unless a later commit takes its place
	}
	db.main.Appended(from)
	return nil
}

// dropAppended removes what appendChunks stored and nothing will refer to.
func (db *writer) dropAppended(ctx context.Context, from int64) error {
	if db.healthy() != nil {
		return nil
	}
	b := db.fresh(batch.Atomic)
	start, end := db.main.Layout.FileChunks(actorstore.FileMain, uint32(from))
	b.DeleteRange(start, end)
	if err := db.apply(ctx, b); err != nil {
		return err
	}
	db.main.Dropped(from)
	return nil
}
