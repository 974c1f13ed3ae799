package readahead

import (
	"bytes"
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// On a far engine opening a database is one read. It brings the metadata of all files,
// which lie before the chunks, the first chunks of the main file and those that the
// hints name. What a crash left besides is looked for before the first change:
// it isn't seen until then.

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

// Open fetches what opening a database reads, and returns a source that has it; nil if that must be read piece by
// piece: on a near engine, where something is to be finished first, and on errors, which
// will show themselves again. found says whether there is a database. The source is for opening alone.
func (d *Database) Open(ctx context.Context) (quick chunked.Source, found bool) {
	if d == nil {
		return nil, false
	}
	var runs []run
	d.hints, runs = newHints(d.from.Hints())
	r := &metaReader{Source: d.source, metas: map[string][]byte{}}
	layout := d.source.Layout()
	r.start = layout.AppendFileMeta(nil, actorstore.FileMain)
	_, r.end = layout.NamedFileMetas()
	each := func(e actorstore.Entry) error {
		if bytes.Compare(e.Key, r.end) < 0 {
			r.metas[string(e.Key)] = bytes.Clone(e.Value)
		} else if _, i, ok := layout.ParseFileChunk(e.Key); ok {
			d.hints.fetched(int64(i), e.Value)
		}
		return nil
	}
	if err := d.from.Preload(ctx, hintedRanges(layout, runs), each); err != nil || !r.tidy(d.from.Seq()) {
		return nil, false
	}
	return r, len(r.metas) > 0
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
func hintedRanges(l actorstore.Layout, runs []run) []actorstore.KeyRange {
	chunk := func(i int64) []byte { return chunked.AppendEnd(nil, l, actorstore.FileMain, i) }
	ranges := []actorstore.KeyRange{{Start: l.AppendFileMeta(nil, actorstore.FileMain), End: chunk(firstChunks)}}
	for _, r := range runs {
		if r.from = max(r.from, firstChunks); r.from < r.to {
			ranges = append(ranges, actorstore.KeyRange{Start: chunk(r.from), End: chunk(r.to)})
		}
	}
	return ranges
}
