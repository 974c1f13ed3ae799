package vfs

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A committer lands batches in the actor: those of the writer's transaction, and others of the database.
type committer struct {
	states
	batch  batch.Batch
	subs   []batch.Sub                     // scratch
	before func(ctx context.Context) error // is called before every commit
}

// commit lands b, which is a carrier, and waits until it is on stable storage if the
// writer's synchronous asks for that.
func (db *committer) commit(ctx context.Context, b *batch.Batch) error {
	s, w := db.landing(), db.owner.Load()
	if s != nil && s.batch != b {
		s = nil
	}
	err := db.write(ctx, b, w == nil || w.awaited(), s)
	if err == nil && w != nil {
		w.ended = true
	}
	return err
}

// apply lands b without the wait, and without what is staged. If a part of b lands and the
// engine refuses the rest, files learn of the part, and the database
// goes on; without files the database fails.
func (db *committer) apply(ctx context.Context, b *batch.Batch, files ...*chunked.File) error {
	err := db.write(ctx, b, false, nil)
	part := (*batch.OrderedError)(nil)
	if !errors.As(err, &part) {
		return err
	}
	subs, split := b.Split(db.actor.Limits(), nil)
	if len(files) == 0 || split != nil {
		db.fail(err)
		return err
	}
	for _, s := range subs[:part.Landed] {
		for i := range s.Ops {
			for _, f := range files {
				f.LandedOp(&s.Ops[i])
			}
		}
	}
	return err
}

// write lands b, which is what is staged in s if that is not nil. An error after which the actor can't
// go on fails the database for good: what landed is unknown. A refusal (too large, a full
// quota, a full disk, a read that failed) doesn't; of an ordered batch a part may have
// landed before it. A panic behind the landing fails the database too. But one of what is staged, a hook or a
// Late function, doesn't keep memory from following the store: it goes on in Update.
func (db *committer) write(ctx context.Context, b *batch.Batch, durable bool, s *staged) (err error) {
	err = db.refuses(s)
	if err == nil {
		err = db.before(ctx)
	}
	if err != nil {
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

// durable waits until everything that was stored is on stable storage. If that fails
// it is not known what is, and the database refuses everything.
func (db *committer) durable(ctx context.Context) error {
	err := db.actor.Sync(ctx)
	if err != nil {
		db.fail(err)
	}
	return err
}

// fresh returns the database's batch, with nothing in it. It is the writer's.
func (db *committer) fresh(mode batch.Mode) *batch.Batch {
	db.batch.Reset()
	db.batch.Mode = mode
	return &db.batch
}

// carrier returns the batch of the commit that ends the writer's transaction: the one in which
// code has staged what lands with it, marked, so that another form of the commit may be tried; or the
// database's own.
func (db *committer) carrier() *batch.Batch {
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

// fits returns an error that wraps batch.ErrTooLarge if b can't land atomically.
func (db *committer) fits(b *batch.Batch) (err error) {
	limits := db.actor.Limits()
	if db.subs, err = b.Split(limits, db.subs[:0]); err != nil {
		return err
	}
	return limits.CheckSubs(b.Mode, len(db.subs))
}

// shed gives back the memory of a large transaction.
func (db *committer) shed() {
	if cap(db.batch.Ops()) > 4*chunked.MaxKept {
		db.batch, db.subs = batch.Batch{}, nil
	}
}

// tooLarge says whether err asks for the journal: the commit is larger than the
// engine takes at once, the database is healthy, and nothing was written.
func tooLarge(err error) bool { return errors.Is(err, batch.ErrTooLarge) }
