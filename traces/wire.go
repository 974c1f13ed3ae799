package traces

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// ReadWire returns what was recorded in [start, end), to the millisecond, of at most limit
// spans, as the TypeScript runtime hands it out to viewers; docs/traces.md says where the
// form is. A limit that is not positive, or an end that is not behind start, is an empty
// range with the limit 0. Errors are those of Read; damaged chunks are left out.
func (t *Traces) ReadWire(ctx context.Context, start, end time.Time, limit int) (wire []byte, err error) {
	w := &wireRange{start: bound(start, 0) / 1e6, end: bound(end, math.MaxInt64) / 1e6}
	if limit <= 0 || w.end <= w.start {
		return w.append(nil), nil
	}
	q := Query{Start: time.UnixMilli(int64(w.start)), End: time.UnixMilli(int64(w.end)), Limit: limit}
	err = t.reading(ctx, func(snap *actorstore.Snapshot, memory []keyed) error {
		rd, err := newReader(ctx, snap, q, min(t.store.opts.MaxRead, math.MaxUint32), memory)
		if err != nil {
			return fmt.Errorf("traces: read: %w", err)
		}
		w.take(rd)
		return nil
	})
	return w.append(nil), err
}

// take puts what was gathered into w: of the spans that began before the range the newest
// record that says what they are, and everything in the range.
func (w *wireRange) take(rd *reader) {
	w.limit, w.clamped = uint32(rd.limit), rd.clamped
	var bases, records []timed
	for _, s := range rd.spans {
		if !s.inRange || !s.base {
			continue
		}
		for _, part := range s.apart(rd.from) {
			if part.inRange {
				base, in := part.split(rd.from)
				bases, records = append(bases, base...), append(records, in...)
			}
		}
	}
	order := func(a, b timed) int { return a.place.compare(b.place) }
	slices.SortFunc(bases, order)
	slices.SortFunc(records, order)
	for _, r := range bases {
		w.base = append(w.base, &chunk{base: r.chunk.base, strings: r.strings, records: []record{*r.record}})
	}
	var last *chunk
	for _, r := range records {
		if r.chunk != last {
			last = r.chunk
			w.chunks = append(w.chunks, &chunk{base: last.base, strings: last.strings, active: last.active})
		}
		c := w.chunks[len(w.chunks)-1]
		c.records = append(c.records, *r.record)
	}
}

// split returns the newest record from before a time that says what the span is, if there
// is one, and all records from then on.
func (g *gathered) split(from uint64) (base, in []timed) {
	for _, r := range g.records {
		switch {
		case r.at >= from:
			in = append(in, r)
		case r.base() && (base == nil || r.at >= base[0].at):
			base = []timed{r}
		}
	}
	return base, in
}

// A wireRange is the answer of the TypeScript runtime to a question for a range: the chunks
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
