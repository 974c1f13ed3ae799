package traces

import (
	"math"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A bucket is the chunks of one stretch of time that are made since Open. What ids
// they have isn't known before a look at what is stored, which recording must
// not wait for: until then they are counted.
type bucket struct {
	start    int64  // Unix seconds
	made     uint32 // chunks begun
	first    uint32 // id of the first of them
	resolved bool   // first is known
}

// A seat is where a record is, or will be: in the chunk of that number of its bucket.
type seat struct {
	bucket *bucket
	number uint32
	index  uint32
}

// place is known when the bucket is resolved.
func (s seat) place() place {
	return place{chunkKey{s.bucket.start, s.bucket.first + s.number}, s.index}
}

// A builder is a chunk that is being filled. Its size is known to the byte at any time.
type builder struct {
	bucket      *bucket
	number      uint32
	base        uint64 // Unix ns
	begun       time.Time
	ids         map[string]uint32
	strings     []string
	stringBytes int // with their lengths
	records     []byte
	count       int
	min, max    uint64    // Unix ns
	traces      []uint64  // hashes of the traces, some of them twice
	ends        []ending  // of spans that began in other chunks
	resource    *Resource // stated in this chunk last
	serial      uint64    // no other chunk of the session has it
}

// chunkSize is the size of a stored chunk with n strings and so on.
func chunkSize(n, stringBytes, records, recordBytes, refs, refBytes int) int {
	return bare.VersionSize + 8 + uvarintSize(n) + stringBytes +
		uvarintSize(records) + recordBytes + uvarintSize(refs) + refBytes
}

// size is that of the chunk if it were cut with so many active spans.
func (b *builder) size(refs, refBytes int) int {
	return chunkSize(len(b.strings), b.stringBytes, b.count, len(b.records), refs, refBytes)
}

// intern returns the index of a string, which it adds if it must.
func (b *builder) intern(s string) uint32 {
	if id, ok := b.ids[s]; ok {
		return id
	}
	id := uint32(len(b.strings))
	b.ids[s] = id
	b.strings = append(b.strings, s)
	b.stringBytes += uvarintSize(len(s)) + len(s)
	return id
}

// A mark is what undo goes back to.
type mark struct{ strings, stringBytes int }

func (b *builder) mark() mark { return mark{len(b.strings), b.stringBytes} }

// undo forgets the strings since m.
func (b *builder) undo(m mark) {
	for _, s := range b.strings[m.strings:] {
		delete(b.ids, s)
	}
	clear(b.strings[m.strings:])
	b.strings, b.stringBytes = b.strings[:m.strings], m.stringBytes
}

// saw notes the time and the trace of a record.
func (b *builder) saw(at uint64, trace uint64) {
	b.min, b.max = min(b.min, at), max(b.max, at)
	if trace != 0 {
		b.traces = append(b.traces, trace)
	}
}

// A pending is a chunk that was cut and waits to be written. Its content doesn't change.
type pending struct {
	bucket   *bucket
	number   uint32
	seq      uint64 // in the order of cutting, over all sessions
	strings  []string
	records  []byte
	count    int
	min, max uint64
	traces   []uint64
	ends     []ending // guarded by store.mu
	refs     []ref
	size     int

	// Guarded by store.mu.
	state   pendingState
	tries   int // attempts so far
	refused int // of these the last ones that said that it is too large
}

type pendingState uint8

const (
	waiting pendingState = iota
	writing              // an attempt is under way
	staged               // in a caller's batch
	gone                 // written, or dropped
)

// A ref is a span that ran when a chunk was cut.
type ref struct {
	span     SpanID
	start    seat
	snapshot optional[seat]
}

// away reports whether all that r names is in some of the chunks.
func (r *ref) away(chunks map[seat]bool) bool {
	in := func(s seat) bool { return chunks[seat{s.bucket, s.number, 0}] }
	return in(r.start) && (!r.snapshot.set || in(r.snapshot.value))
}

// An ending is the end of a span at a time in Unix ns. If its chunk is dropped it must be
// recorded again: what the span began with may be stored, and would run for ever.
type ending struct {
	span *Span
	at   uint64
}

// newBuilder returns an empty chunk of the bucket. It takes the memory of reuse, if that
// isn't nil, that a cut chunk doesn't need.
func newBuilder(k *bucket, reuse map[string]uint32, room int) *builder {
	clear(reuse)
	if reuse == nil {
		reuse = map[string]uint32{}
	}
	b := &builder{
		bucket: k, number: k.made, base: uint64(k.start) * 1e9, begun: time.Now(),
		ids: reuse, records: make([]byte, 0, room), min: math.MaxUint64,
	}
	k.made++
	return b
}

// cut returns the chunk with the spans that run; b is used no more.
func (b *builder) cut(refs []ref, refBytes int, seq uint64) *pending {
	return &pending{
		bucket: b.bucket, number: b.number, seq: seq, strings: b.strings, records: b.records, count: b.count,
		min: b.min, max: b.max, traces: b.traces, ends: b.ends, refs: refs, size: b.size(len(refs), refBytes),
	}
}

// key is known when the bucket is resolved.
func (p *pending) key() chunkKey { return seat{p.bucket, p.number, 0}.place().chunk }

// encode returns the stored form. All buckets that it refers to must be resolved; those
// of earlier records are when its own is.
func (p *pending) encode() []byte {
	dst := bare.AppendVersion(make([]byte, 0, p.size), chunkVersion)
	dst = bare.AppendU64(dst, uint64(p.bucket.start)*1e9)
	dst = bare.AppendUint(dst, uint64(len(p.strings)))
	for _, s := range p.strings {
		dst = bare.AppendString(dst, s)
	}
	dst = append(bare.AppendUint(dst, uint64(p.count)), p.records...)
	dst = bare.AppendUint(dst, uint64(len(p.refs)))
	for _, r := range p.refs {
		a := active{span: r.span, start: r.start.place()}
		if r.snapshot.set {
			a.snapshot = some(r.snapshot.value.place())
		}
		dst = a.append(dst)
	}
	return dst
}
