package vfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A chunked is one file of an actor as its writer sees it: what the store has,
// overlaid with what was written and not stored yet. The main file and the
// rollback journal are both of this kind; what differs is when they are stored.
//
// Laws: a byte at or beyond size reads as absent, whatever the store holds
// there; a hole below size reads as zero; the metadata record never states a
// size whose chunks have not landed before it or with it.
//
// It isn't safe for concurrent use, except that lens.learn is.
type chunked struct {
	tag    actorstore.FileTag
	layout actorstore.Layout // of the actor's keys
	reader actorstore.Reader // newest state
	size   int64             // as the writer sees it
	stored int64             // as the metadata record states it; −1: no record
	cut    int64             // stored chunks from this number on were truncated away
	lens   lengths
	dirty  pageSet

	key     []byte // scratch
	record  []byte // scratch for the metadata record: a batch refers to it until committed
	scratch chunkBuf
}

// maxLearned bounds the chunks of which readers' lengths are learned, those of the
// first GiB: a damaged record must not make a huge table.
const maxLearned = 1 << 18

// load reads the metadata record and forgets everything else.
func (f *chunked) load(ctx context.Context) error {
	f.dirty.clear()
	f.key = f.layout.AppendFileMeta(f.key[:0], f.tag)
	record, err := f.reader.Get(ctx, f.key, f.record[:0])
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		f.size, f.stored = 0, -1
	case err != nil:
		return err
	default:
		if f.size, err = parseMeta(record); err != nil {
			return err
		}
		f.stored = f.size
	}
	f.cut = maxChunks
	f.lens.reset(chunkCount(f.size), maxLearned)
	return nil
}

// refuseUnsized returns ErrCorrupt if a file without a metadata record has chunks. Of
// the main file no crash leaves that, because the record is stored before anything
// else of it (announce): it is lost, and the chunks are all that is left.
func (f *chunked) refuseUnsized(ctx context.Context) error {
	start, end := f.layout.FileChunks(f.tag, 0)
	for e, err := range f.reader.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		if err != nil {
			return err
		}
		return fmt.Errorf("vfs: %s is there, and %s is missing: %w", actorstore.Describe(e.Key),
			actorstore.Describe(f.layout.AppendFileMeta(nil, f.tag)), actorstore.ErrCorrupt)
	}
	return nil
}

// announce puts a metadata record of size 0 into b, in front of chunks that are stored
// before the record that covers them, if the file has none. What is found without a
// record is then damage, and not what a crash left.
func (f *chunked) announce(b *batch.Batch) {
	if f.stored < 0 {
		b.PutPrior(f.layout.AppendFileMeta(nil, f.tag), appendMeta(nil, 0), batch.Absent)
	}
}

// readAt is io.ReaderAt on the writer's state.
func (f *chunked) readAt(ctx context.Context, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < f.size {
		pos := off + int64(n)
		i, at := uint32(pos/chunkSize), int(pos%chunkSize)
		want := min(len(b)-n, chunkSize-at, int(min(f.size-pos, chunkSize)))
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

// readStored fills b with bytes of stored chunk i from offset at on, and with
// zeros what the chunk doesn't have.
func (f *chunked) readStored(ctx context.Context, b []byte, i uint32, at int) error {
	if int64(i) >= f.cut {
		clear(b)
		return nil
	}
	f.key = f.layout.AppendFileChunk(f.key[:0], f.tag, i)
	n, err := readChunk(ctx, f.reader, f.key, b, at, &f.scratch)
	if err == nil {
		f.lens.learn(i, n)
	}
	return err
}

// readChunk fills b with the bytes of the chunk under key from offset at on, zeros
// where it is shorter or missing, and returns its stored length, −1 when it is
// missing. A read from the chunk's beginning needs no copy; scratch serves the others.
func readChunk(ctx context.Context, r actorstore.Reader, key, b []byte, at int, scratch *chunkBuf) (int, error) {
	buf := scratch[:0]
	if at == 0 && len(b) == chunkSize {
		buf = b[:0:chunkSize]
	}
	chunk, err := r.Page(ctx, key, buf)
	n := len(chunk)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		clear(b)
		return -1, nil
	case err != nil:
		return 0, err
	case n > chunkSize:
		return 0, fmt.Errorf("vfs: %s holds %d bytes, a chunk has at most %d: %w",
			actorstore.Describe(key), n, chunkSize, actorstore.ErrCorrupt)
	}
	if at == 0 && len(b) == chunkSize {
		clear(b[n:])
		return n, nil
	}
	clear(b[copy(b, chunk[min(at, n):]):])
	return n, nil
}

// writeAt overlays b; nothing reaches the store.
func (f *chunked) writeAt(ctx context.Context, b []byte, off int64) (int, error) {
	if off+int64(len(b)) > maxFileSize {
		return 0, fmt.Errorf("vfs: write at %d is beyond the largest file of %d bytes: %w",
			off, int64(maxFileSize), batch.ErrTooLarge)
	}
	if err := f.trimTail(ctx, off+int64(len(b))); err != nil {
		return 0, err
	}
	n := 0
	for n < len(b) {
		pos := off + int64(n)
		i, at := uint32(pos/chunkSize), int(pos%chunkSize)
		want := min(len(b)-n, chunkSize-at)
		p, err := f.modify(ctx, i, want == chunkSize)
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
func (f *chunked) trimTail(ctx context.Context, size int64) error {
	i, at := uint32(f.size/chunkSize), f.size%chunkSize
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
func (f *chunked) modify(ctx context.Context, i uint32, whole bool) (*chunkBuf, error) {
	if p := f.dirty.get(i); p != nil {
		return p, nil
	}
	p, end := f.dirty.add(i), f.size-int64(i)*chunkSize
	switch {
	case whole:
	case end <= 0:
		clear(p[:]) // never mind what an earlier, longer file left here
	default:
		if err := f.readStored(ctx, p[:], i, 0); err != nil {
			f.dirty.drop(int64(i), int64(i)+1)
			return nil, err
		}
		clear(p[min(end, chunkSize):])
	}
	return p, nil
}

// truncate cuts the file to size bytes, which is not more than it has. Nothing
// reaches the store.
func (f *chunked) truncate(ctx context.Context, size int64) error {
	if at := size % chunkSize; at != 0 && size < f.size {
		// What lies beyond must not come back when the file grows again.
		p, err := f.modify(ctx, uint32(size/chunkSize), false)
		if err != nil {
			return err
		}
		clear(p[at:])
	}
	f.dirty.drop(chunkCount(size), maxChunks)
	f.size, f.cut = size, min(f.cut, chunkCount(size))
	return nil
}

// revert drops what isn't stored.
func (f *chunked) revert() {
	f.dirty.clear()
	f.size, f.cut = max(f.stored, 0), maxChunks
}

// changed says whether the store differs from what the writer sees.
func (f *chunked) changed() bool {
	return f.dirty.len() > 0 || f.size != max(f.stored, 0) || f.cut < chunkCount(f.stored)
}

// stage puts into b the chunks in [from, to) that are not stored, in ascending
// order, after the removal of what was truncated away. The buffers belong to the
// overlay: b must be committed before they change.
func (f *chunked) stage(b *batch.Batch, from, to int64) {
	if from <= f.cut && f.cut < min(chunkCount(f.stored), to) {
		f.stageRemoval(&b.Group, f.cut)
	}
	for _, p := range f.dirty.within(from, to) {
		f.key = f.layout.AppendFileChunk(f.key[:0], f.tag, p.number)
		b.PutPrior(f.key, p.buf[:f.chunkLen(p.number)], f.lens.prior(p.number))
	}
}

// stageSize puts the metadata record into g if it changes.
func (f *chunked) stageSize(g *batch.Group) {
	if f.size == f.stored {
		return
	}
	f.record = appendMeta(f.record[:0], f.size)
	f.key = f.layout.AppendFileMeta(f.key[:0], f.tag)
	g.PutPrior(f.key, f.record, f.metaPrior())
}

// stageDelete removes the whole file. The metadata record goes first, and alone
// decides.
func (f *chunked) stageDelete(g *batch.Group) {
	f.key = f.layout.AppendFileMeta(f.key[:0], f.tag)
	g.DeletePrior(f.key, f.metaPrior())
	f.stageRemoval(g, 0)
}

func (f *chunked) metaPrior() batch.Prior {
	if f.stored < 0 {
		return batch.Absent
	}
	return batch.Stored(metaSize)
}

// stageRemoval removes the stored chunks from number from on, and not those that
// were appended to them and land beside.
func (f *chunked) stageRemoval(g *batch.Group, from int64) {
	count := chunkCount(max(f.stored, 0))
	if from >= count {
		return
	}
	start := f.layout.AppendFileChunk(nil, f.tag, uint32(from))
	end := appendChunkEnd(nil, f.layout, f.tag, count)
	prior := batch.PriorUnknown
	if n, ok := f.lens.stored(from, count, len(start)+batch.WrapperBytes); ok {
		prior = batch.Freed(n)
	}
	g.DeleteRangePrior(start, end, prior)
}

// landed records that the chunks of [from, to) that were staged are stored.
func (f *chunked) landed(from, to int64) {
	for _, p := range f.dirty.within(from, to) {
		f.lens.set(p.number, f.chunkLen(p.number))
	}
}

// landedOp records that an operation is stored, if it is one on f.
func (f *chunked) landedOp(op *batch.Op) {
	tag, i, ok := f.layout.ParseFileChunk(op.Key)
	switch {
	case !ok && bytes.Equal(op.Key, f.layout.AppendFileMeta(nil, f.tag)):
		f.stored = 0 // see announce: the size comes last
	case !ok || tag != f.tag:
	case op.Kind == batch.DeleteRange:
		f.lens.truncate(int64(i))
	default:
		f.lens.set(i, len(op.Value))
	}
}

// settled records that everything the writer sees is stored.
func (f *chunked) settled() {
	if f.cut < chunkCount(f.stored) {
		f.lens.truncate(f.cut)
	}
	f.landed(0, maxChunks)
	f.stored, f.cut = f.size, maxChunks
	f.dirty.clear()
}

// removed records that the file was deleted.
func (f *chunked) removed() {
	f.dirty.clear()
	f.size, f.stored, f.cut = 0, -1, maxChunks
	f.lens.reset(0, 0)
}

// chunkLen is the length of chunk i: what the file's size leaves of it.
func (f *chunked) chunkLen(i uint32) int {
	return int(min(f.size-int64(i)*chunkSize, chunkSize))
}

// appendChunkEnd appends the key behind the chunks of a file below number end.
func appendChunkEnd(dst []byte, l actorstore.Layout, tag actorstore.FileTag, end int64) []byte {
	if end >= maxChunks {
		dst = l.AppendFileChunk(dst, tag, uint32(maxChunks-1))
		return append(dst, 0)
	}
	return l.AppendFileChunk(dst, tag, uint32(end))
}
