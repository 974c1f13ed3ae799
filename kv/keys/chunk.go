package keys

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// ChunkSize is the length of every piece of a chunked value but the last, in bytes.
const ChunkSize = 10_000

// Chunked returns c for values of any length: they are cut into pieces of ChunkSize
// bytes, which are stored one by one behind the key, under the key's elements and the
// index of the piece from 0. The last piece is as long as it is, and empty only when
// it is the only one. All functions of typed keys know what to do with such a key.
//
// What lies behind a chunked key are its pieces and nothing else, so that the type's
// elements can't end with an optional one. Pieces that are missing, out of order or of
// a wrong length are kv.ErrCorrupt, with one exception that can't be seen here: that the
// last ones are missing, and the one before them has the full length.
//
// A single entry is limited to some size by every store, transactions to 100,000
// bytes; a transaction as a whole is limited, too.
func Chunked[V any](c Codec[V]) Codec[V] { return chunked[V]{c} }

type chunked[V any] struct{ Codec[V] }

// A chunker is a codec that Chunked returned.
type chunker interface{ chunks() }

func (chunked[V]) chunks() {}

// putChunks stores the value in s in pieces behind the key in s.
func putChunks(w Writer, s *scratch) error {
	key := s.e.buf
	if s.e.stamps > 0 {
		return fmt.Errorf("chunked value under a versionstamped key: %w", ErrMisuse)
	}
	// What was there may have had more pieces.
	if err := w.ClearRange(tuple.Range(key)); err != nil {
		return err
	}
	i := int64(0)
	for piece := range chunksOf(s.value) {
		s.e.buf = tuple.AppendInt(key, i)
		if err := w.Set(s.e.buf, piece); err != nil {
			return err
		}
		i++
	}
	return nil
}

// chunksOf cuts value into pieces, at least one.
func chunksOf(value []byte) iter.Seq[[]byte] {
	if len(value) == 0 {
		return slices.Values([][]byte{nil})
	}
	return slices.Chunk(value, ChunkSize)
}

// readChunks appends the pieces behind key to dst; ok says whether there are any.
func readChunks(ctx context.Context, r kv.Reader, key, dst []byte) (value []byte, ok bool, err error) {
	j := joiner{value: dst}
	begin, end := tuple.Range(key)
	for e, err := range r.Scan(ctx, kv.Range{Start: begin, End: end}) {
		if err != nil {
			return dst, false, err
		}
		i, rest, err := tuple.NextInt(e.Key[len(key):])
		if err != nil || len(rest) > 0 {
			return dst, false, fmt.Errorf("%s behind it is no piece of its value: %w", keyWords(e.Key[len(key):]), kv.ErrCorrupt)
		}
		if err := j.add(i, e.Value); err != nil {
			return dst, false, err
		}
	}
	return j.value, j.n > 0, j.end()
}

// anyChunk reports whether there is a piece behind key.
func anyChunk(ctx context.Context, r kv.Reader, key []byte) (bool, error) {
	begin, end := tuple.Range(key)
	for _, err := range r.Scan(ctx, kv.Range{Start: begin, End: end, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// A joiner puts pieces together again. They come in their order, or all of them in
// the reverse one.
type joiner struct {
	reverse bool
	value   []byte
	n       int   // pieces so far
	last    int64 // the index of the last one that came
	size    int   // and its length
}

// reset begins a new value.
func (j *joiner) reset() { j.value, j.n = j.value[:0], 0 }

// add takes the next piece. It copies the bytes.
func (j *joiner) add(i int64, piece []byte) error {
	switch {
	case len(piece) > ChunkSize:
		return fmt.Errorf("piece %d of the value has %d bytes: %w", i, len(piece), kv.ErrCorrupt)
	case i < 0:
		return fmt.Errorf("piece %d of the value can't be: %w", i, kv.ErrCorrupt)
	}
	var err error
	if j.reverse {
		err = j.before(i, piece)
	} else {
		err = j.behind(i, piece)
	}
	j.value = append(j.value, piece...)
	j.n, j.last, j.size = j.n+1, i, len(piece)
	return err
}

// behind checks piece i as the one behind those that came.
func (j *joiner) behind(i int64, piece []byte) error {
	want := int64(j.n)
	switch {
	case i > want:
		return fmt.Errorf("piece %d of the value is missing: %w", want, kv.ErrCorrupt)
	case i < want:
		return fmt.Errorf("piece %d of the value comes where piece %d should: %w", i, want, kv.ErrCorrupt)
	case i > 0 && j.size < ChunkSize:
		return fmt.Errorf("piece %d of the value has %d bytes and is not the last: %w", j.last, j.size, kv.ErrCorrupt)
	case i > 0 && len(piece) == 0:
		return fmt.Errorf("piece %d of the value is empty: %w", i, kv.ErrCorrupt)
	}
	return nil
}

// before checks piece i as the one before those that came.
func (j *joiner) before(i int64, piece []byte) error {
	switch {
	case j.n == 0 && i > 0 && len(piece) == 0:
		return fmt.Errorf("piece %d of the value is empty: %w", i, kv.ErrCorrupt)
	case j.n == 0:
		return nil
	case i < j.last-1:
		return fmt.Errorf("piece %d of the value is missing: %w", j.last-1, kv.ErrCorrupt)
	case i >= j.last:
		return fmt.Errorf("piece %d of the value comes where piece %d should: %w", i, j.last-1, kv.ErrCorrupt)
	case len(piece) < ChunkSize:
		return fmt.Errorf("piece %d of the value has %d bytes and is not the last: %w", i, len(piece), kv.ErrCorrupt)
	}
	return nil
}

// end says whether pieces are missing at the end that came last, and puts those that
// came in reverse into their order.
func (j *joiner) end() error {
	if !j.reverse || j.n == 0 {
		return nil
	}
	if j.last != 0 {
		return fmt.Errorf("piece %d of the value is missing: %w", j.last-1, kv.ErrCorrupt)
	}
	// The piece that came first may be short, all others are full: reversing all
	// bytes, and then those of each piece, puts each into its place.
	slices.Reverse(j.value)
	for piece := range slices.Chunk(j.value, ChunkSize) {
		slices.Reverse(piece)
	}
	return nil
}
