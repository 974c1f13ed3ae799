package vfs

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// commit lands b, which is a carrier, and waits until it is on stable storage if the
// writer's synchronous asks for that.
func (db *database) commit(ctx context.Context, b *batch.Batch) error {
	s, h := db.landing(), db.owner.Load()
	if s != nil && s.batch != b {
		s = nil
	}
	err := db.write(ctx, b, h == nil || awaited(h), s)
	if err == nil && h != nil {
		h.ended = true
	}
	return err
}

// apply lands b without the wait, and without what is staged. If a part of b lands and the
// engine refuses the rest, memory learns of the part where parts is true, and the database
// goes on; where parts is false the database fails.
func (db *database) apply(ctx context.Context, b *batch.Batch, parts bool) error {
	err := db.write(ctx, b, false, nil)
	part := (*batch.OrderedError)(nil)
	if !errors.As(err, &part) {
		return err
	}
	subs, split := b.Split(db.actor.Limits(), nil)
	if !parts || split != nil {
		db.fail(err)
		return err
	}
	for _, s := range subs[:part.Landed] {
		for i := range s.Ops {
			db.main.LandedOp(&s.Ops[i])
			db.journal.file.LandedOp(&s.Ops[i])
		}
	}
	return err
}

// write lands b, which is what is staged in s if that is not nil. An error after which the actor can't
// go on fails the database for good: what landed is unknown. A refusal (too large, a full
// quota, a full disk, a read that failed) doesn't; of an ordered batch a part may have
// landed before it. A panic behind the landing fails the database too. But one of what is staged, a hook or a
// Late function, doesn't keep memory from following the store: it goes on in Update.
func (db *database) write(ctx context.Context, b *batch.Batch, durable bool, s *staged) (err error) {
	if err := db.beforeCommit(ctx); err != nil {
		b.Rewind(err)
		return err
	}
	began, seq := db.meter.start(), db.actor.Seq()
	err = errLeft
	defer func() {
		p := recover()
		if p == nil && err != errLeft {
			return
		}
		landed := db.actor.Seq() != seq
		if p != nil {
			db.logPanic(p)
			err = panicked(p)
		}
		switch {
		case p != nil && s != nil:
			if s.panicked = p; landed {
				err = nil
			}
		case landed:
			db.fail(err)
		}
	}()
	timer := metricApplyTime
	if durable {
		timer, err = metricDurableTime, db.actor.Commit(ctx, b)
	} else {
		err = db.actor.Apply(ctx, b)
	}
	db.meter.observe(timer, began)
	if err != nil && db.actor.Err() != nil {
		db.fail(err)
	}
	return err
}

// beforeCommit is called before every commit of the database. It has work only on a far
// engine.
func (db *database) beforeCommit(ctx context.Context) error {
	if err := db.tidyLate(ctx); err != nil {
		return err
	}
	db.ahead.Ripen(chunked.Count(db.main.Size()))
	return nil
}

// storeOrdered stores what is new in f in as many parts as the limits ask for,
// the size record last. It doesn't wait for stable storage.
func (db *database) storeOrdered(ctx context.Context, f *chunked.File) error {
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
	guarded := f != &db.main || db.journal.isStoredLive()
	if err := db.apply(ctx, b, guarded); err != nil {
		return err
	}
	f.Settled()
	return nil
}

// flushMain stores what is new in the main file, after the journal that can
// undo it. It doesn't wait for stable storage.
func (db *database) flushMain(ctx context.Context) error {
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
func (db *database) spill(ctx context.Context) error {
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

// shed gives back the memory of a large transaction.
func (db *database) shed() {
	if cap(db.batch.Ops()) > 4*chunked.MaxKept {
		db.batch, db.subs = batch.Batch{}, nil
	}
}

// landMain lands what is new in the main file when no journal guards it: in
// journal_mode=MEMORY, or when the journal is already over. It is one atomic commit
// if the limits allow that at all. If not, it is stored in parts, which SQLite
// documents for this mode: a crash or a failure between them leaves a damaged file.
//
// https://sqlite.org/pragma.html#pragma_journal_mode
func (db *database) landMain(ctx context.Context) error {
	err := db.commitAll(ctx)
	if !tooLarge(err) {
		return err
	}
	if err := db.flushMain(ctx); err != nil {
		return err
	}
	if h := db.owner.Load(); h != nil && h.synchronous() < syncFull {
		return nil
	}
	return db.durable(ctx)
}

// durable waits until everything that was stored is on stable storage. If that fails
// it is not known what is, and the database refuses everything.
func (db *database) durable(ctx context.Context) error {
	err := db.actor.Sync(ctx)
	if err != nil {
		db.fail(err)
	}
	return err
}

// fresh returns the database's batch, with nothing in it. It is the writer's.
func (db *database) fresh(mode batch.Mode) *batch.Batch {
	db.batch.Reset()
	db.batch.Mode = mode
	return &db.batch
}

// carrier returns the batch of the commit that ends the writer's transaction: the one in which
// code has staged what lands with it, marked, so that another form of the commit may be tried; or the
// database's own.
func (db *database) carrier() *batch.Batch {
	switch s := db.landing(); {
	case s == nil || s.batch.Settled():
	case s.reading:
		s.armed = false // SQLite has turned back
	default:
		s.batch.Mark(&db.batch)
		return s.batch
	}
	return db.fresh(batch.Atomic)
}

// staging returns a carrier with what is new in f, of its chunks those below number to.
func (db *database) staging(f *chunked.File, to int64) *batch.Batch {
	b := db.carrier()
	if v, changed := schemaChange(f); changed && f == &db.main && !db.wal.there() { // whose newest transaction may have another one
		db.actor.StageSchema(b, v)
	}
	f.Stage(b, 0, to)
	f.StageSize(b.Final())
	return b
}

// commitAll lands what is new in the main file with one atomic, durable commit, after
// others that nobody sees if that is too large. When it can't be done so, it says so
// (tooLarge), and nothing has changed.
func (db *database) commitAll(ctx context.Context) error {
	err := db.commitMain(ctx)
	if tooLarge(err) {
		err = db.commitInParts(ctx)
	}
	return err
}

// commitMain lands what is new in the main file as one atomic, durable commit.
// When that is too large it changes nothing and says so (tooLarge).
func (db *database) commitMain(ctx context.Context) error {
	if !db.main.Changed() {
		return nil
	}
	s := db.landing()
	if err := db.beginChange(ctx, s == nil || !batch.Attended(s.batch)); err != nil {
		return err
	}
	if err := db.commit(ctx, db.staging(&db.main, chunked.MaxChunks)); err != nil {
		unchanged(db)
		return err
	}
	db.main.Settled()
	return nil
}

// commitInParts is commitMain for what is too large for it: the chunks beyond
// the committed size go first, because nobody sees them until the size record
// lands with the rest.
func (db *database) commitInParts(ctx context.Context) error {
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

// fits returns an error that wraps batch.ErrTooLarge if b can't land atomically.
func (db *database) fits(b *batch.Batch) (err error) {
	limits := db.actor.Limits()
	if db.subs, err = b.Split(limits, db.subs[:0]); err != nil {
		return err
	}
	return limits.CheckSubs(b.Mode, len(db.subs))
}

// appendChunks stores the new chunks from number from on.
func (db *database) appendChunks(ctx context.Context, from int64) error {
	b := db.fresh(batch.Ordered)
	db.main.Announce(b)
	db.main.Stage(b, from, chunked.MaxChunks)
	if err := db.apply(ctx, b, true); err != nil {
		return err // the next owner removes a part that landed, unless a later commit takes its place
	}
	db.main.Appended(from)
	return nil
}

// dropAppended removes what appendChunks stored and nothing will refer to.
func (db *database) dropAppended(ctx context.Context, from int64) error {
	if db.healthy() != nil {
		return nil
	}
	b := db.fresh(batch.Atomic)
	start, end := db.main.Layout.FileChunks(actorstore.FileMain, uint32(from))
	b.DeleteRange(start, end)
	if err := db.apply(ctx, b, false); err != nil {
		return err
	}
	db.main.Dropped(from)
	return nil
}

// tooLarge says whether err asks for the journal: the commit is larger than the
// engine takes at once, the database is healthy, and nothing was written.
func tooLarge(err error) bool { return errors.Is(err, batch.ErrTooLarge) }
