// Package chunked keeps a file of SQLite's in the keys of an actor, in chunks of 4096 bytes: what is stored, overlaid with
// what was written and is not stored yet.
package chunked

// Files, from the top down: file.go, the file; pages.go, what is not stored yet; lengths.go, the lengths of the chunks that
// are; meta.go, the record of the file's size; source.go,
// what is read.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A File is one file of an actor, in the form in which its writer sees it. The main file, the rollback journal and the write-ahead log are of
// this kind; what differs is when they are stored.
//
// Laws: a byte at or beyond the size reads as absent, whatever the store holds
// there; a hole below the size reads as zero; the metadata record never states a
// size before its chunks land: with it at the latest.
//
// Errors of its methods are those of the Reader, and those that a comment names. It isn't safe for concurrent use, except
// that Learn is.
type File struct {
	// Tag says which file it is, and Layout how the actor's keys are made. Neither changes after the first use.
	Tag    actorstore.FileTag
	Layout actorstore.Layout
	// Reader shows what is stored. The writer may replace it by one that shows the same of this file.
	Reader actorstore.Reader

	size   int64 // as the writer sees it
	stored int64 // as the metadata record states it; −1 without a record
	cut    int64 // stored chunks from this number on were truncated away
	lens   lengths
	dirty  pageSet

	key    []byte // scratch
	record []byte // scratch for the metadata record: a batch refers to it until committed
}

// Size is the size in bytes as the writer sees it.
func (f *File) Size() int64 { return f.size }

// Stored is the size in bytes that the metadata record states, −1 without one.
func (f *File) Stored() int64 { return f.stored }

// Pending is the number of chunks that were written and are not stored.
func (f *File) Pending() int { return f.dirty.len() }

// Page returns chunk i if it was written and is not stored, else nil. It is the File's, and the caller may change it until
// the next method is called.
func (f *File) Page(i uint32) *Buf { return f.dirty.get(i) }

// maxLearned bounds the chunks of which readers' lengths are learned, those of the
// first GiB: a damaged record must not make a huge table.
const maxLearned = 1 << 18

// Load reads the metadata record and forgets everything else.
func (f *File) Load(ctx context.Context) error {
	f.dirty.clear()
	f.key = f.Layout.AppendFileMeta(f.key[:0], f.Tag)
	record, err := f.Reader.Get(ctx, f.key, f.record[:0])
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		f.size, f.stored = 0, -1
	case err != nil:
		return err
	default:
		if f.size, err = ParseMeta(record); err != nil {
			return err
		}
		f.stored = f.size
	}
	f.cut = MaxChunks
	f.lens.reset(Count(f.size), maxLearned)
	return nil
}

// RefuseUnsized returns ErrCorrupt if a file without a metadata record has chunks. Of
// the main file no crash leaves that, because the record is stored before anything
// else of it (Announce): it is lost, and the chunks are all that is left.
func (f *File) RefuseUnsized(ctx context.Context) error {
	start, end := f.Layout.FileChunks(f.Tag, 0)
	for e, err := range f.Reader.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		if err != nil {
			return err
		}
		return fmt.Errorf("vfs: %s is there, and %s is missing: %w", actorstore.Describe(e.Key),
			actorstore.Describe(f.Layout.AppendFileMeta(nil, f.Tag)), actorstore.ErrCorrupt)
	}
	return nil
}

// Announce puts a metadata record of size 0 into b, in front of chunks that are stored
// before the record that covers them, if the file has none. What is found without a
// record is then damage, and not what a crash left.
func (f *File) Announce(b *batch.Batch) {
	if f.stored < 0 {
		b.PutPrior(f.Layout.AppendFileMeta(nil, f.Tag), AppendMeta(nil, 0), batch.Absent)
	}
}

// ReadAt is io.ReaderAt on the writer's state.
func (f *File) ReadAt(ctx context.Context, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < f.size {
		pos := off + int64(n)
		i, at := uint32(pos/Size), int(pos%Size)
		want := min(len(b)-n, Size-at, int(min(f.size-pos, Size)))
		if p := f.dirty.get(i); p != nil {
			copy(b[n:n+want], p[at:])
		} else if err := f.readStored(ctx, b[n:n+want], i, at); err != nil {
			return n, err
		}
		n += want
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Overlay returns the beginning of b that lies in one chunk at off, nothing beyond the end. If memory has that chunk found is
// true, and the piece is filled.
func (f *File) Overlay(b []byte, off int64) (piece []byte, found bool) {
	i, at := off/Size, off%Size
	piece = b[:max(0, min(int64(len(b)), Size-at, f.size-off))]
	switch p := f.dirty.get(uint32(i)); {
	case p != nil:
		copy(piece, p[at:])
	case i >= f.cut:
		clear(piece)
	default:
		return piece, false
	}
	return piece, true
}

// Prime says that chunk i, which is stored, has the content of p. Memory has it from now on, so that writing a part of it
// needs no read.
func (f *File) Prime(i uint32, p *Buf) {
	if f.dirty.get(i) == nil && f.cut > int64(i) {
		*f.dirty.add(i) = *p
	}
}

// readStored fills b with bytes of stored chunk i from offset at on, and with
// zeros what the chunk doesn't have.
func (f *File) readStored(ctx context.Context, b []byte, i uint32, at int) error {
	if int64(i) >= f.cut {
		clear(b)
		return nil
	}
	f.key = f.Layout.AppendFileChunk(f.key[:0], f.Tag, i)
	n, err := Read(ctx, f.Reader, f.key, b, at)
	if err == nil {
		f.lens.learn(i, n)
	}
	return err
}

// Read fills b with the bytes of the chunk under key from offset at on, zeros
// where it is shorter or missing, and returns its stored length, −1 when it is
// missing. A read of a whole chunk needs no copy.
func Read(ctx context.Context, r actorstore.Reader, key, b []byte, at int) (int, error) {
	var buf []byte
	if at == 0 && len(b) == Size {
		buf = b[:0:Size]
	} else {
		scratch := chunkBufs.Get().(*Buf)
		defer chunkBufs.Put(scratch)
		buf = scratch[:0]
	}
	chunk, err := r.Page(ctx, key, buf)
	n := len(chunk)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		clear(b)
		return -1, nil
	case err != nil:
		return 0, err
	case n > Size:
		return 0, fmt.Errorf("vfs: %s holds %d bytes, a chunk has at most %d: %w",
			actorstore.Describe(key), n, Size, actorstore.ErrCorrupt)
	}
	if at == 0 && len(b) == Size {
		clear(b[n:])
		return n, nil
	}
	clear(b[copy(b, chunk[min(at, n):]):])
	return n, nil
}

// WriteAt overlays b; nothing reaches the store.
func (f *File) WriteAt(ctx context.Context, b []byte, off int64) (int, error) {
	if off+int64(len(b)) > MaxFileSize {
		return 0, fmt.Errorf("vfs: write at %d is beyond the largest file of %d bytes: %w",
			off, int64(MaxFileSize), batch.ErrTooLarge)
	}
	if err := f.trimTail(ctx, off+int64(len(b))); err != nil {
		return 0, err
	}
	n := 0
	for n < len(b) {
		pos := off + int64(n)
		i, at := uint32(pos/Size), int(pos%Size)
		want := min(len(b)-n, Size-at)
		p, err := f.modify(ctx, i, want == Size)
		if err != nil {
			return n, err
		}
		n += copy(p[at:at+want], b[n:])
	}
	f.size = max(f.size, off+int64(len(b)))
	return n, nil
}

// trimTail is called before the file grows to size: what the store may hold beyond
// the present end must not come to light. What this package stored ends there.
func (f *File) trimTail(ctx context.Context, size int64) error {
	i, at := uint32(f.size/Size), f.size%Size
	if size <= f.size || at == 0 || f.dirty.get(i) != nil || int64(i) >= f.cut {
		return nil
	}
	if n, known := f.lens.prior(i).Known(); known && n <= at {
		return nil
	}
	_, err := f.modify(ctx, i, false)
	return err
}

// modify returns the overlay's buffer of chunk i, which the caller changes. Unless
// all of it will be overwritten it has the content the writer sees.
func (f *File) modify(ctx context.Context, i uint32, whole bool) (*Buf, error) {
	if p := f.dirty.get(i); p != nil {
		return p, nil
	}
	p, end := f.dirty.add(i), f.size-int64(i)*Size
	switch {
	case whole:
	case end <= 0:
		clear(p[:]) // never mind what an earlier, longer file left here
	default:
		if err := f.readStored(ctx, p[:], i, 0); err != nil {
			f.dirty.drop(int64(i), int64(i)+1)
			return nil, err
		}
		clear(p[min(end, Size):])
	}
	return p, nil
}

// truncate cuts the file to size bytes, which is not more than it has. Nothing
// reaches the store.
func (f *File) truncate(ctx context.Context, size int64) error {
	if at := size % Size; at != 0 && size < f.size {
		// What lies beyond must not come back when the file grows again.
		p, err := f.modify(ctx, uint32(size/Size), false)
		if err != nil {
			return err
		}
		clear(p[at:])
	}
	f.dirty.drop(Count(size), MaxChunks)
	f.size, f.cut = size, min(f.cut, Count(size))
	return nil
}

// Resize makes the file size bytes long, longer or shorter. Nothing reaches the store.
func (f *File) Resize(ctx context.Context, size int64) error {
	if size <= f.size {
		return f.truncate(ctx, size)
	}
	err := f.trimTail(ctx, size)
	if err == nil {
		f.size = size
	}
	return err
}

// Rest gives back the memory that files keep for the next chunks, when nothing is pending.
func Rest(files ...*File) {
	for _, f := range files {
		f.dirty.rest()
	}
}

// Revert drops what isn't stored.
func (f *File) Revert() {
	f.dirty.clear()
	f.size, f.cut = max(f.stored, 0), MaxChunks
}

// Changed says whether the store differs from what the writer sees.
func (f *File) Changed() bool {
	return f.dirty.len() > 0 || f.size != max(f.stored, 0) || f.cut < Count(f.stored)
}

// Stage puts into b the chunks in [from, to) that are not stored, in ascending
// order, after the removal of what was truncated away. The buffers belong to the
// overlay: b must be committed before they change.
func (f *File) Stage(b *batch.Batch, from, to int64) {
	if from <= f.cut && f.cut < min(Count(f.stored), to) {
		f.stageRemoval(&b.Group, f.cut)
	}
	for _, p := range f.dirty.within(from, to) {
		f.key = f.Layout.AppendFileChunk(f.key[:0], f.Tag, p.number)
		b.PutPrior(f.key, p.buf[:chunkLen(f.size, p.number)], f.lens.prior(p.number))
	}
}

// StageSize puts the metadata record into g if it changes.
func (f *File) StageSize(g *batch.Group) {
	if f.size == f.stored {
		return
	}
	f.record = AppendMeta(f.record[:0], f.size)
	f.key = f.Layout.AppendFileMeta(f.key[:0], f.Tag)
	g.PutPrior(f.key, f.record, metaPrior(f.stored))
}

// StageDelete removes the whole file. The metadata record goes first, and alone
// decides.
func (f *File) StageDelete(g *batch.Group) {
	f.key = f.Layout.AppendFileMeta(f.key[:0], f.Tag)
	g.DeletePrior(f.key, metaPrior(f.stored))
	f.stageRemoval(g, 0)
}

// metaPrior is what the metadata record takes before it changes, of a file for which it states stored.
func metaPrior(stored int64) batch.Prior {
	if stored < 0 {
		return batch.Absent
	}
	return batch.Stored(MetaSize)
}

// stageRemoval removes the stored chunks from number from on, and not those that
// were appended to them and land beside.
func (f *File) stageRemoval(g *batch.Group, from int64) {
	count := Count(max(f.stored, 0))
	if from >= count {
		return
	}
	start := f.Layout.AppendFileChunk(nil, f.Tag, uint32(from))
	end := AppendEnd(nil, f.Layout, f.Tag, count)
	prior := batch.PriorUnknown
	if n, ok := f.lens.stored(from, count, len(start)+batch.WrapperBytes); ok {
		prior = batch.Freed(n)
	}
	g.DeleteRangePrior(start, end, prior)
}

// Appended records that the chunks from number from on, which were staged, are stored, behind a record that Announce has staged.
func (f *File) Appended(from int64) {
	f.stored = max(f.stored, 0)
	f.landed(from, MaxChunks)
}

// Dropped records that the stored chunks from number from on, which no record covers, are gone.
func (f *File) Dropped(from int64) { f.lens.truncate(from) }

// Learn records that a reader saw n bytes stored as chunk i, −1 if it saw none. It is safe for concurrent use.
func (f *File) Learn(i uint32, n int) { f.lens.learn(i, n) }

// landed records that the chunks of [from, to) that were staged are stored.
func (f *File) landed(from, to int64) {
	for _, p := range f.dirty.within(from, to) {
		f.lens.set(p.number, chunkLen(f.size, p.number))
	}
}

// LandedOp records that an operation is stored, if it is one on f.
func (f *File) LandedOp(op *batch.Op) {
	tag, i, ok := f.Layout.ParseFileChunk(op.Key)
	switch {
	case !ok && bytes.Equal(op.Key, f.Layout.AppendFileMeta(nil, f.Tag)):
		f.stored = 0 // see announce: the size comes last
	case !ok || tag != f.Tag:
	case op.Kind == batch.DeleteRange:
		f.lens.truncate(int64(i))
	default:
		f.lens.set(i, len(op.Value))
	}
}

// Settled records that everything the writer sees is stored.
func (f *File) Settled() {
	if f.cut < Count(f.stored) {
		f.lens.truncate(f.cut)
	}
	f.landed(0, MaxChunks)
	f.stored, f.cut = f.size, MaxChunks
	f.dirty.clear()
}

// Removed records that the file was deleted.
func (f *File) Removed() {
	f.dirty.clear()
	f.size, f.stored, f.cut = 0, -1, MaxChunks
	f.lens.reset(0, 0)
}

// chunkLen is the length of chunk i: what the size of its file leaves of it.
func chunkLen(size int64, i uint32) int {
	return int(min(size-int64(i)*Size, Size))
}

// AppendEnd appends the key behind the chunks of a file below number end.
func AppendEnd(dst []byte, l actorstore.Layout, tag actorstore.FileTag, end int64) []byte {
	if end >= MaxChunks {
		dst = l.AppendFileChunk(dst, tag, uint32(MaxChunks-1))
		return append(dst, 0)
	}
	return l.AppendFileChunk(dst, tag, uint32(end))
}
