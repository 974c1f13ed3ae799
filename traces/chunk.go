package traces

import (
	"cmp"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A chunk, version 1, in the schema language of BARE (https://baremessages.org). It is what
// the TypeScript runtime stores, and must stay so byte for byte:
//
//	type Chunk struct { baseUnixNs: u64 strings: list<str> records: list<Record>
//	                    activeSpans: list<ActiveSpan> }
//	type Record struct { timeOffsetNs: u64
//	                     body: union { Start | Event | Update | End | Snapshot } }
//	type Start struct { traceId: data spanId: data parentSpanId: optional<data> name: u32
//	                    kind: u32 traceState: optional<str> flags: u32
//	                    attributes: list<Attribute> droppedAttributes: u32
//	                    links: list<Link> droppedLinks: u32 }
//	type Event struct { spanId: data name: u32 attributes: list<Attribute> dropped: u32 }
//	type Update struct { spanId: data attributes: list<Attribute> dropped: u32
//	                     status: optional<Status> }
//	type End struct { spanId: data status: optional<Status> }
//	type Snapshot struct { … as Start, startTimeUnixNs: u64 behind kind,
//	                       status: optional<Status> at the end }
//	type Attribute struct { key: u32 value: data }
//	type Link struct { traceId: data spanId: data traceState: optional<str>
//	                   attributes: list<Attribute> dropped: u32 }
//	type Status struct { code: enum { UNSET OK ERROR } message: optional<str> }
//	type ActiveSpan struct { spanId: data start: Place snapshot: optional<Place> }
//	type Place struct { prefix: u32 bucket: u64 chunk: u32 record: u32 }
//
// Names and keys are indices into strings. Values of attributes are CBOR: valuecodec.go.
const chunkVersion = 1

// recordKind is the tag of a record's body.
type recordKind uint8

const (
	kindStart recordKind = iota
	kindEvent
	kindUpdate
	kindEnd
	kindSnapshot
	recordKinds
)

// Sizes in bytes.
const (
	activeSize         = 1 + 8 + placeSize + 1
	activeSnapshotSize = activeSize + placeSize
	placeSize          = 4 + 8 + 4 + 4
)

// An attrRow is an attribute as it is stored.
type attrRow struct {
	key   uint32 // index into the strings
	value []byte // CBOR
}

// A linkRow is a link as it is stored.
type linkRow struct {
	trace   TraceID
	span    SpanID
	state   optional[string]
	attrs   []attrRow
	dropped uint32
}

// A statusRow is a status as it is stored.
type statusRow struct {
	code    StatusCode
	message optional[string]
}

// An optional is a field that may be absent.
type optional[T any] struct {
	value T
	set   bool
}

func some[T any](v T) optional[T] { return optional[T]{v, true} }

// A record is one of any kind: it uses the fields that its kind has.
type record struct {
	offset uint64 // ns since the base of the chunk
	kind   recordKind
	span   SpanID

	trace        TraceID
	parent       optional[SpanID]
	name         uint32
	spanKind     uint32
	start        uint64 // Unix ns, of a snapshot
	state        optional[string]
	flags        uint32
	attrs        []attrRow
	dropped      uint32
	links        []linkRow
	droppedLinks uint32
	status       optional[statusRow]
}

// A place is where a record is.
type place struct {
	chunk chunkKey
	index uint32
}

// compare orders records as they are stored.
func (p place) compare(o place) int {
	return cmp.Or(p.chunk.compare(o.chunk), cmp.Compare(p.index, o.index))
}

// An active is a span that ran when a chunk was cut.
type active struct {
	span     SpanID
	start    place
	snapshot optional[place]
}

// A chunk is one that has been decoded, or is to be encoded as a whole.
type chunk struct {
	base    uint64 // Unix ns
	strings []string
	records []record
	active  []active
}

// append appends the chunk without a version.
func (c *chunk) append(dst []byte) []byte {
	dst = bare.AppendU64(dst, c.base)
	dst = bare.AppendUint(dst, uint64(len(c.strings)))
	for _, s := range c.strings {
		dst = bare.AppendString(dst, s)
	}
	dst = bare.AppendUint(dst, uint64(len(c.records)))
	for i := range c.records {
		dst = c.records[i].append(dst)
	}
	dst = bare.AppendUint(dst, uint64(len(c.active)))
	for i := range c.active {
		dst = c.active[i].append(dst)
	}
	return dst
}

func (r *record) append(dst []byte) []byte {
	dst = bare.AppendU8(bare.AppendU64(dst, r.offset), uint8(r.kind))
	switch r.kind {
	case kindStart, kindSnapshot:
		return r.appendStart(dst)
	case kindEvent:
		dst = bare.AppendU32(appendID(dst, r.span[:]), r.name)
		return bare.AppendU32(appendAttrs(dst, r.attrs), r.dropped)
	case kindUpdate:
		dst = bare.AppendU32(appendAttrs(appendID(dst, r.span[:]), r.attrs), r.dropped)
	case kindEnd:
		dst = appendID(dst, r.span[:])
	}
	return appendStatus(dst, &r.status)
}

// appendStart appends a start or a snapshot.
func (r *record) appendStart(dst []byte) []byte {
	dst = appendID(appendID(dst, r.trace[:]), r.span[:])
	if dst = bare.AppendBool(dst, r.parent.set); r.parent.set {
		dst = appendID(dst, r.parent.value[:])
	}
	dst = bare.AppendU32(bare.AppendU32(dst, r.name), r.spanKind)
	if r.kind == kindSnapshot {
		dst = bare.AppendU64(dst, r.start)
	}
	dst = bare.AppendU32(appendOptionalText(dst, &r.state), r.flags)
	dst = bare.AppendU32(appendAttrs(dst, r.attrs), r.dropped)
	dst = bare.AppendUint(dst, uint64(len(r.links)))
	for i := range r.links {
		l := &r.links[i]
		dst = appendOptionalText(appendID(appendID(dst, l.trace[:]), l.span[:]), &l.state)
		dst = bare.AppendU32(appendAttrs(dst, l.attrs), l.dropped)
	}
	dst = bare.AppendU32(dst, r.droppedLinks)
	if r.kind == kindSnapshot {
		dst = appendStatus(dst, &r.status)
	}
	return dst
}

func appendID(dst, id []byte) []byte { return append(append(dst, byte(len(id))), id...) }

func appendAttrs(dst []byte, attrs []attrRow) []byte {
	dst = bare.AppendUint(dst, uint64(len(attrs)))
	for i := range attrs {
		dst = bare.AppendData(bare.AppendU32(dst, attrs[i].key), attrs[i].value)
	}
	return dst
}

func appendOptionalText(dst []byte, s *optional[string]) []byte {
	if dst = bare.AppendBool(dst, s.set); s.set {
		dst = bare.AppendString(dst, s.value)
	}
	return dst
}

func appendStatus(dst []byte, s *optional[statusRow]) []byte {
	if dst = bare.AppendBool(dst, s.set); s.set {
		dst = appendOptionalText(bare.AppendU8(dst, uint8(s.value.code)), &s.value.message)
	}
	return dst
}

func (a *active) append(dst []byte) []byte {
	dst = appendPlace(appendID(dst, a.span[:]), a.start)
	if dst = bare.AppendBool(dst, a.snapshot.set); a.snapshot.set {
		dst = appendPlace(dst, a.snapshot.value)
	}
	return dst
}

func appendPlace(dst []byte, p place) []byte {
	dst = bare.AppendU64(bare.AppendU32(dst, keyPrefix), uint64(p.chunk.bucket))
	return bare.AppendU32(bare.AppendU32(dst, p.chunk.id), p.index)
}

// uvarintSize is the length of a BARE uint.
func uvarintSize(v int) (n int) {
	for n = 1; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
