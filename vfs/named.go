package vfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// The older form of the keys says which file a key belongs to by its name, where
// today's says it by a tag:
//
//	09 00 + name                     the metadata record
//	09 01 + name + 00 + chunk u32be  a chunk
//
// The values are the same. The files of one database have the names X, X-journal,
// X-wal and X-shm. A name is not empty, holds no NUL, and begins above the tags:
// with a byte of at most 3 it couldn't be told from one.
//
// What is found in this form is read where it is, and rewritten before the first
// change of the file (move.go).

// namedSuffixes are what the names of the files end in.
var namedSuffixes = [...]string{
	actorstore.FileMain: "", actorstore.FileJournal: "-journal", actorstore.FileWAL: "-wal", actorstore.FileSHM: "-shm",
}

// namedKey returns the older key for which the tag-form key stands in the database
// base.
func namedKey(l actorstore.Layout, base string, key []byte) ([]byte, bool) {
	if tag, i, ok := l.ParseFileChunk(key); ok {
		return l.AppendNamedFileChunk(nil, base+namedSuffixes[tag], i), true
	}
	for tag, suffix := range namedSuffixes {
		if bytes.Equal(key, l.AppendFileMeta(nil, actorstore.FileTag(tag))) {
			return l.AppendNamedFileMeta(nil, base+suffix), true
		}
	}
	return nil, false
}

// A namedReader reads a database of the older form by the keys of today's: a key
// that is missing is looked up under its older name. So it shows the same content
// before, during and after the move. Listing shows the keys as they are.
//
// Of a state that changes it is for the goroutine that changes it: a chunk might be
// moved between the two looks.
type namedReader struct {
	actorstore.Reader
	base string
}

// Get is the Reader's.
func (r *namedReader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.either(ctx, key, dst, r.Reader.Get)
}

// Page is the Reader's.
func (r *namedReader) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.either(ctx, key, dst, r.Reader.Page)
}

// either reads key or, if it is missing, its older name.
func (r *namedReader) either(ctx context.Context, key, dst []byte, read func(context.Context, []byte, []byte) ([]byte, error)) ([]byte, error) {
	v, err := read(ctx, key, dst)
	if errors.Is(err, actorstore.ErrNotFound) {
		if old, ok := namedKey(r.Layout(), r.base, key); ok {
			return read(ctx, old, dst)
		}
	}
	return v, err
}

// A namedSource is the source of a database of the older form, until it is moved.
type namedSource struct {
	namedReader
	source source // as the store has it
}

var _ source = (*namedSource)(nil)

func newNamedSource(src source, base string) *namedSource {
	return &namedSource{namedReader{src, base}, src}
}

// Snapshot is the source's.
func (s *namedSource) Snapshot(ctx context.Context) (snapshot, error) {
	snap, err := s.source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &namedSnapshot{namedReader{snap, s.base}, snap}, nil
}

// file returns the name of a file of the database.
func (s *namedSource) file(tag actorstore.FileTag) string { return s.base + namedSuffixes[tag] }

// A namedSnapshot is a snapshot of a namedSource.
type namedSnapshot struct {
	namedReader
	snapshot snapshot
}

// Close is the snapshot's.
func (s *namedSnapshot) Close() error { return s.snapshot.Close() }

// findNamed returns the source of the database of the older form that src has, nil
// if there is none. What this package can't take over is ErrUnsupported.
func findNamed(ctx context.Context, src source) (*namedSource, error) {
	var base string
	layout := src.Layout()
	start, end := layout.NamedFileMetas()
	for e, err := range src.List(ctx, actorstore.ListOptions{Start: start, End: end, KeysOnly: true}) {
		name := strings.TrimPrefix(string(e.Key), string(layout.AppendNamedFileMeta(nil, "")))
		switch {
		case err != nil:
			return nil, err
		case strings.IndexByte(name, 0) >= 0 || isCompanion(name):
		case base != "":
			return nil, fmt.Errorf("%w: the actor has two databases under keys of the older form, %q and %q; it can have one",
				ErrUnsupported, base, name)
		default:
			base = name
		}
	}
	if base == "" {
		return nil, nil
	}
	s := newNamedSource(src, base)
	wal := chunked.File{Tag: actorstore.FileWAL, Reader: s, Layout: s.Layout()}
	if err := wal.Load(ctx); err != nil {
		return nil, err
	}
	if wal.Size() > 0 {
		return nil, fmt.Errorf("%w: the database %q, under keys of the older form, has a write-ahead log of %d bytes (%q)",
			ErrUnsupported, base, wal.Size(), s.file(actorstore.FileWAL))
	}
	return s, nil
}

// isCompanion says whether name is that of a file beside a database.
func isCompanion(name string) bool {
	return slices.ContainsFunc(namedSuffixes[actorstore.FileJournal:], func(s string) bool {
		return strings.HasSuffix(name, s)
	})
}

// collect stages the removal of the journal, which is over or moved by now, and of
// the main file's chunks from number from on.
func (s *namedSource) collect(ctx context.Context, b *batch.Batch, from int64) error {
	layout, journal, main := s.Layout(), s.file(actorstore.FileJournal), s.file(actorstore.FileMain)
	there, err := has(ctx, s.source, layout.AppendNamedFileMeta(nil, journal))
	if err != nil {
		return err
	}
	if there {
		b.Delete(layout.AppendNamedFileMeta(nil, journal))
	}
	start, end := layout.NamedFileChunks(journal)
	if err := collectRange(ctx, b, s.source, start, end); err != nil || from >= chunked.MaxChunks {
		return err
	}
	_, end = layout.NamedFileChunks(main)
	return collectRange(ctx, b, s.source, layout.AppendNamedFileChunk(nil, main, uint32(from)), end)
}

// collectNamed stages the removal of chunks of the older form that belong to no file:
// those without a metadata record. A whole file beside a database of today's form
// is left alone, and never read; somebody else wrote it.
func collectNamed(ctx context.Context, b *batch.Batch, r actorstore.Reader) error {
	layout := r.Layout()
	_, from := layout.FileChunks(actorstore.FileSHM, 0)
	_, end := layout.Range(actorstore.NamespaceSQLite)
	for from != nil {
		var next []byte
		for e, err := range r.List(ctx, actorstore.ListOptions{Start: from, End: end, Limit: 1, KeysOnly: true}) {
			if err != nil {
				return err
			}
			next = append(bytes.Clone(e.Key), 0)
			name, _, ok := layout.ParseNamedFileChunk(e.Key)
			if !ok {
				continue
			}
			there, err := has(ctx, r, layout.AppendNamedFileMeta(nil, name))
			if err != nil {
				return err
			}
			var start []byte
			if start, next = layout.NamedFileChunks(name); !there {
				b.DeleteRange(start, next)
			}
		}
		from = next
	}
	return nil
}
