package vfs

import (
	"bytes"
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// On a far engine opening a database is one read. It brings the metadata of all files,
// which lie before the chunks, the first chunks of the main file and those that the
// hints name. What a crash may have left besides is looked for before the first change:
// nobody sees it until then.

// A metaReader is a source of which the metadata of all files is known.
type metaReader struct {
	chunked.Source
	metas      map[string][]byte
	start, end []byte // the range of their keys
}

// Get is the Reader's.
func (r *metaReader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if bytes.Compare(key, r.start) < 0 || bytes.Compare(key, r.end) >= 0 {
		return r.Source.Get(ctx, key, dst)
	}
	if v, ok := r.metas[string(key)]; ok {
		return append(dst, v...), nil
	}
	return dst, actorstore.ErrNotFound
}

// A loader is an actor, or a view of one, on a far engine.
type loader interface {
	Hints() []byte
	Seq() uint64
	Preload(ctx context.Context, ranges []actorstore.KeyRange, each func(actorstore.Entry) error) error
}

// loader returns what opening fetches from.
func (db *database) loader() loader {
	if v, ok := db.source.(*farView); ok {
		return v
	}
	return db.actor
}

// preload fetches what opening reads. It returns false if that must be read piece by
// piece: on a near engine, where something is to be finished first, and on errors, which
// will show themselves again. With quick the files are read through a metaReader until
// done is called.
func (db *database) preload(ctx context.Context) (quick bool, done func()) {
	done = func() {}
	if !db.far {
		return false, done
	}
	from := db.loader()
	var runs []chunkRun
	db.hints, runs = newHints(from.Hints())
	r := &metaReader{Source: db.source, metas: map[string][]byte{}}
	layout := db.source.Layout()
	r.start = layout.AppendFileMeta(nil, actorstore.FileMain)
	_, r.end = layout.NamedFileMetas()
	each := func(e actorstore.Entry) error {
		if bytes.Compare(e.Key, r.end) < 0 {
			r.metas[string(e.Key)] = bytes.Clone(e.Value)
		} else if _, i, ok := layout.ParseFileChunk(e.Key); ok {
			db.hints.fetched(int64(i), e.Value)
		}
		return nil
	}
	if err := from.Preload(ctx, hintedRanges(layout, runs), each); err != nil {
		return false, done
	}
	if !r.tidy(from.Seq()) {
		return false, done
	}
	db.untidy = len(r.metas) > 0
	files := []*chunked.File{&db.main, &db.journal.file, &db.wal.file}
	for _, f := range files {
		f.Reader = r
	}
	return true, func() {
		for _, f := range files {
			f.Reader = db.source
		}
	}
}

// tidy says whether there is a main file and nothing beside it, or nothing at all and
// never was.
func (r *metaReader) tidy(seq uint64) bool {
	if len(r.metas) == 0 {
		return seq == 0
	}
	_, ok := r.metas[string(r.start)]
	return ok && len(r.metas) == 1
}

// hintedRanges returns the ranges of keys to fetch: from the first metadata to the first chunks, and the runs.
func hintedRanges(l actorstore.Layout, runs []chunkRun) []actorstore.KeyRange {
	chunk := func(i int64) []byte { return chunked.AppendEnd(nil, l, actorstore.FileMain, i) }
	ranges := []actorstore.KeyRange{{Start: l.AppendFileMeta(nil, actorstore.FileMain), End: chunk(firstChunks)}}
	for _, r := range runs {
		if r.from = max(r.from, firstChunks); r.from < r.to {
			ranges = append(ranges, actorstore.KeyRange{Start: chunk(r.from), End: chunk(r.to)})
		}
	}
	return ranges
}

// tidyLate is what tidy would have done when the database was opened. It is called by
// the writer before anything is stored.
func (db *database) tidyLate(ctx context.Context) error {
	if !db.untidy {
		return nil
	}
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
	db.untidy = false
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
