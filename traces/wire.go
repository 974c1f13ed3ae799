package traces

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A wireRange is the answer of the TypeScript runtime to who asks for a range: the chunks
// with the records in it, and for the spans that began before it a chunk of one record
// each. Version 1, in the schema language of BARE:
//
//	type ReadRange struct { startTimeMs: u64 endTimeMs: u64 limit: u32 clamped: bool
//	                        baseChunks: list<Chunk> chunks: list<Chunk> }
type wireRange struct {
	start, end uint64 // Unix ms
	limit      uint32
	clamped    bool
	base       []*chunk
	chunks     []*chunk
}

const wireVersion = 1

func (w *wireRange) append(dst []byte) []byte {
	dst = bare.AppendVersion(dst, wireVersion)
	dst = bare.AppendU64(bare.AppendU64(dst, w.start), w.end)
	dst = bare.AppendBool(bare.AppendU32(dst, w.limit), w.clamped)
	for _, chunks := range [][]*chunk{w.base, w.chunks} {
		dst = bare.AppendUint(dst, uint64(len(chunks)))
		for _, c := range chunks {
			dst = c.append(dst)
		}
	}
	return dst
}

func parseWireRange(b []byte) (w *wireRange, err error) {
	body, err := openVersion(b, wireVersion)
	if err != nil {
		return nil, err
	}
	r := bare.NewReader(body)
	w = &wireRange{start: r.U64(), end: r.U64(), limit: r.U32(), clamped: r.Bool()}
	for _, chunks := range []*[]*chunk{&w.base, &w.chunks} {
		for range r.Len(maxList) {
			c := readChunk(r)
			if r.Err() != nil {
				break
			}
			*chunks = append(*chunks, c)
		}
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return w, nil
}
