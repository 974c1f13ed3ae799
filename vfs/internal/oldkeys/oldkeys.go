// Package oldkeys reads and rewrites the databases of actors whose files lie under keys of the older form.
//
// The older form says which file a key belongs to by its name, where
// today's says it by a tag:
//
//	09 00 + name                     the metadata record
//	09 01 + name + 00 + chunk u32be  a chunk
//
// The values are the same. The files of one database have the names X, X-journal,
// X-wal and X-shm. A name is not empty, holds no NUL, and begins above the tags:
// with a byte of at most 3 it couldn't be told from one.
//
// What is found in this form is read where it is (Find), and rewritten before the first
// change of the file (Source.Move).
package oldkeys

// Files, from the top down: oldkeys.go, how a database of the older form is read; move.go, how it is rewritten.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// Suffixes are what the names of the files end in.
var Suffixes = [...]string{
	actorstore.FileMain: "", actorstore.FileJournal: "-journal", actorstore.FileWAL: "-wal", actorstore.FileSHM: "-shm",
}

// Key returns the older key for which the tag-form key stands in the database
// base.
func Key(l actorstore.Layout, base string, key []byte) ([]byte, bool) {
	if tag, i, ok := l.ParseFileChunk(key); ok {
		return l.AppendNamedFileChunk(nil, base+Suffixes[tag], i), true
	}
	for tag, suffix := range Suffixes {
		if bytes.Equal(key, l.AppendFileMeta(nil, actorstore.FileTag(tag))) {
			return l.AppendNamedFileMeta(nil, base+suffix), true
		}
	}
	return nil, false
}

// A reader reads a database of the older form by the keys of today's: a key
// that is missing is looked up under its older name. So it shows the same content
// before, during and after the move. Listing shows the keys as they are.
//
// Of a state that changes it is for the goroutine that changes it: a chunk might be
// moved between the two looks.
type reader struct {
	actorstore.Reader
	base string
}

// Get is the Reader's.
func (r *reader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.either(ctx, key, dst, r.Reader.Get)
}

// Page is the Reader's.
func (r *reader) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.either(ctx, key, dst, r.Reader.Page)
}

// either reads key or, if it is missing, its older name.
func (r *reader) either(ctx context.Context, key, dst []byte, read func(context.Context, []byte, []byte) ([]byte, error)) ([]byte, error) {
	v, err := read(ctx, key, dst)
	if errors.Is(err, actorstore.ErrNotFound) {
		if old, ok := Key(r.Layout(), r.base, key); ok {
			return read(ctx, old, dst)
		}
	}
	return v, err
}

// A Source is the source of a database of the older form, until its main file is moved. It may be used until its
// database is closed.
type Source struct {
	reader
	source chunked.Source // as the store has it
}

var _ chunked.Source = (*Source)(nil)

func newSource(src chunked.Source, base string) *Source {
	return &Source{reader{src, base}, src}
}

// Snapshot is the source's.
func (s *Source) Snapshot(ctx context.Context) (chunked.Snapshot, error) {
	snap, err := s.source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &pinned{reader{snap, s.base}, snap}, nil
}

// file returns the name of a file of the database.
func (s *Source) file(tag actorstore.FileTag) string { return s.base + Suffixes[tag] }

// A pinned is a snapshot of a Source.
type pinned struct {
	reader
	snapshot chunked.Snapshot
}

// Close is the snapshot's.
func (s *pinned) Close() error { return s.snapshot.Close() }

// Stored returns the source as the store has it: what a database reads once it is moved.
func (s *Source) Stored() chunked.Source { return s.source }

// Find returns the source of the database of the older form that src has, nil without one. An error is one of reading, or of
// the kind errkind.ErrUnsupported where this package can't take over what is there.
func Find(ctx context.Context, src chunked.Source) (*Source, error) {
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
			return nil, unsupported("the actor has two databases under keys of the older form, %q and %q; it can have one", base, name)
		default:
			base = name
		}
	}
	if base == "" {
		return nil, nil
	}
	s := newSource(src, base)
	wal := chunked.File{Tag: actorstore.FileWAL, Reader: s, Layout: s.Layout()}
	if err := wal.Load(ctx); err != nil {
		return nil, err
	}
	if wal.Size() > 0 {
		return nil, unsupported("the database %q, under keys of the older form, has a write-ahead log of %d bytes (%q)",
			base, wal.Size(), s.file(actorstore.FileWAL))
	}
	return s, nil
}

func unsupported(format string, args ...any) error {
	return errkind.New(fmt.Sprintf(format, args...), errkind.ErrUnsupported)
}

// isCompanion says whether name is that of a file beside a database.
func isCompanion(name string) bool {
	return slices.ContainsFunc(Suffixes[actorstore.FileJournal:], func(s string) bool {
		return strings.HasSuffix(name, s)
	})
}

// Collect stages the removal of the journal, which is over or moved by now, and of
// the main file's chunks from number from on, as far as they are there.
func (s *Source) Collect(ctx context.Context, b *batch.Batch, from int64) error {
	layout, journal, main := s.Layout(), s.file(actorstore.FileJournal), s.file(actorstore.FileMain)
	there, err := stored(ctx, s.source, layout.AppendNamedFileMeta(nil, journal))
	if err != nil {
		return err
	}
	if there {
		b.Delete(layout.AppendNamedFileMeta(nil, journal))
	}
	start, end := layout.NamedFileChunks(journal)
	if err := chunked.CollectRange(ctx, b, s.source, start, end); err != nil || from >= chunked.MaxChunks {
		return err
	}
	_, end = layout.NamedFileChunks(main)
	return chunked.CollectRange(ctx, b, s.source, layout.AppendNamedFileChunk(nil, main, uint32(from)), end)
}

// CollectStray stages the removal of chunks of the older form that belong to no file:
// those without a metadata record. A whole file beside a database of today's form
// is left alone, and never read: another program wrote it.
func CollectStray(ctx context.Context, b *batch.Batch, r actorstore.Reader) error {
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
			there, err := stored(ctx, r, layout.AppendNamedFileMeta(nil, name))
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
