package vfs

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

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

// collect removes what a crash left: chunks beyond the end of a file, which only
// a commit in several parts can leave, and a journal that is over or a log that is
// dead, whole. They would never be seen, but they count against the quota.
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

// tidyLate is what tidy would have done when the database was opened. It is called by
// the writer before anything is stored.
func (db *database) tidyLate(ctx context.Context) error {
	if !db.untidy { // of almost every commit: what follows takes memory
		return nil
	}
	if err := db.tidyNow(ctx); err != nil {
		return err
	}
	db.untidy = false
	return nil
}

// tidyNow is tidyLate of a database that wasn't tidied when it was opened.
func (db *database) tidyNow(ctx context.Context) error {
	from := chunked.Count(max(db.main.Stored(), 0))
	start, _ := db.main.Layout.FileChunks(actorstore.FileJournal, 0)
	if from < chunked.MaxChunks {
		start, _ = db.main.Layout.FileChunks(actorstore.FileMain, uint32(from))
	}
	_, end := db.main.Layout.Range(actorstore.NamespaceSQLite)
	for _, err := range db.source.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		if err == nil {
			err = db.collectLate(ctx, from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collectLate removes all chunks but the first ones of the main file: there was no other
// file when the database was opened, and nothing was stored since.
func (db *database) collectLate(ctx context.Context, from int64) error {
	var b batch.Batch
	b.Mode = batch.Ordered
	if err := oldkeys.CollectStray(ctx, &b, db.source); err != nil {
		return err
	}
	for _, f := range []*chunked.File{&db.main, &db.journal.file, &db.wal.file} {
		if err := f.Collect(ctx, &b, db.source, from); err != nil {
			return err
		}
		from = 0
	}
	return db.actor.Apply(ctx, &b)
}
