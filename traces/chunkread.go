package traces

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// maxList bounds lists that are read. Each element takes a byte at least, so that the
// bytes that are there bound the memory anyhow.
const maxList = 1 << 24

// parseChunk decodes a stored chunk. Bytes behind it are ignored, as the first reader of
// this format did. The values of attributes are parts of b.
func parseChunk(b []byte) (c *chunk, err error) {
	body, err := openVersion(b, chunkVersion)
	if err != nil {
		return nil, err
	}
	r := bare.NewReader(body)
	c = readChunk(r)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	return c, nil
}

// openVersion returns what stands behind the version.
func openVersion(b []byte, known uint16) (body []byte, err error) {
	v, body, err := bare.Version(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	case v > known:
		return nil, fmt.Errorf("version %d, known is %d: %w", v, known, actorstore.ErrNewerFormat)
	case v == 0:
		return nil, fmt.Errorf("version 0: %w", actorstore.ErrCorrupt)
	}
	return body, nil
}

func readChunk(r *bare.Reader) *chunk {
	c := &chunk{base: r.U64()}
	c.strings = make([]string, r.Len(maxList))
	for i := range c.strings {
		c.strings[i] = r.String()
	}
	// A length is believed only as far as the input goes, but a record takes more memory
	// than input: let the memory grow as records are read.
	n := r.Len(maxList)
	c.records = make([]record, 0, min(n, 1<<10))
	for range n {
		c.records = append(c.records, record{})
		c.readRecord(r, &c.records[len(c.records)-1])
		if r.Err() != nil {
			return c
		}
	}
	n = r.Len(maxList)
	c.active = make([]active, 0, min(n, 1<<10))
	for range n {
		c.active = append(c.active, readActive(r))
		if r.Err() != nil {
			return c
		}
	}
	return c
}

func (c *chunk) readRecord(r *bare.Reader, rec *record) {
	rec.offset = r.U64()
	if rec.offset > math.MaxInt64-min(c.base, math.MaxInt64) {
		r.Fail("a time of %d ns after %d", rec.offset, c.base)
	}
	rec.kind = recordKind(r.Tag(int(recordKinds)))
	switch rec.kind {
	case kindStart, kindSnapshot:
		c.readStart(r, rec)
	case kindEvent:
		readID(r, rec.span[:])
		rec.name = c.readString(r)
		rec.attrs, rec.dropped = c.readAttrs(r), r.U32()
	case kindUpdate:
		readID(r, rec.span[:])
		rec.attrs, rec.dropped = c.readAttrs(r), r.U32()
		rec.status = readStatus(r)
	case kindEnd:
		readID(r, rec.span[:])
		rec.status = readStatus(r)
	}
}

func (c *chunk) readStart(r *bare.Reader, rec *record) {
	readID(r, rec.trace[:])
	readID(r, rec.span[:])
	if rec.parent.set = r.Bool(); rec.parent.set {
		readID(r, rec.parent.value[:])
	}
	rec.name, rec.spanKind = c.readString(r), r.U32()
	if rec.kind == kindSnapshot {
		if rec.start = r.U64(); rec.start > math.MaxInt64 {
			r.Fail("a time of %d ns", rec.start)
		}
	}
	rec.state, rec.flags = readOptionalText(r), r.U32()
	rec.attrs, rec.dropped = c.readAttrs(r), r.U32()
	for range r.Len(maxList) {
		var l linkRow
		readID(r, l.trace[:])
		readID(r, l.span[:])
		l.state = readOptionalText(r)
		l.attrs, l.dropped = c.readAttrs(r), r.U32()
		if r.Err() != nil {
			return
		}
		rec.links = append(rec.links, l)
	}
	if rec.droppedLinks = r.U32(); rec.kind == kindSnapshot {
		rec.status = readStatus(r)
	}
}

// readID reads the bytes of an id, which is data, but always of one length.
func readID(r *bare.Reader, id []byte) {
	b := r.Data()
	if r.Err() == nil && len(b) != len(id) {
		r.Fail("an id of %d bytes, not %d", len(b), len(id))
	}
	copy(id, b)
}

// readString reads an index into the strings.
func (c *chunk) readString(r *bare.Reader) uint32 {
	i := r.U32()
	if r.Err() == nil && int64(i) >= int64(len(c.strings)) {
		r.Fail("string %d of %d", i, len(c.strings))
		return 0
	}
	return i
}

func (c *chunk) readAttrs(r *bare.Reader) []attrRow {
	n := r.Len(maxList)
	if n == 0 {
		return nil
	}
	attrs := make([]attrRow, 0, min(n, 1<<7))
	for range n {
		attrs = append(attrs, attrRow{c.readString(r), r.Data()})
		if r.Err() != nil {
			return nil
		}
	}
	return attrs
}

func readOptionalText(r *bare.Reader) optional[string] {
	if !r.Bool() {
		return optional[string]{}
	}
	return some(r.String())
}

func readStatus(r *bare.Reader) optional[statusRow] {
	if !r.Bool() {
		return optional[statusRow]{}
	}
	code := r.Tag(3)
	return some(statusRow{StatusCode(code), readOptionalText(r)})
}

func readActive(r *bare.Reader) (a active) {
	readID(r, a.span[:])
	a.start = readPlace(r)
	if r.Bool() {
		a.snapshot = some(readPlace(r))
	}
	return a
}

func readPlace(r *bare.Reader) (p place) {
	if prefix := r.U32(); r.Err() == nil && prefix != keyPrefix {
		r.Fail("a place with the prefix %d", prefix)
	}
	bucket := r.U64()
	if bucket > math.MaxInt64 {
		r.Fail("a bucket at %d", bucket)
	}
	p.chunk = chunkKey{int64(bucket), r.U32()}
	p.index = r.U32()
	return p
}
