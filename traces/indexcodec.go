package traces

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// A note of the index says what times and what traces some chunks of a bucket hold, so
// that a search for a trace, or for a minute, reads few chunks. It is a version and
// entries, up to its end. An entry is
//
//	chunk uint     its id, less that of the first chunk of the note, which is in its key
//	min uint       ms of its earliest record since the beginning of the bucket
//	span uint      ms from there to the latest record
//	all uint       how many traces the chunk has
//	n uint         how many of them this entry has
//	set data       their hashes (hashTrace): scaled to [0, n·2¹⁴), sorted, the differences
//	               in Golomb-Rice code, 14 low bits behind the rest in ones and a zero;
//	               the first bit is the highest of a byte
//
// A chunk whose traces don't fit into one note takes several entries. It is covered by the
// index only if all of them are there: what is not covered has to be read. One lookup in
// 16,384 finds a trace where it isn't, and costs reading a chunk for nothing.
const (
	indexVersion = 1

	// maxMillis is the latest time that a record can have (unixNano), in ms.
	maxMillis = math.MaxInt64 / 1_000_000

	setBits = 14
	// A set of n takes at most n·(14+1) bits and n more, which is how far the scaled
	// hashes go in steps of 2¹⁴.
	setBytesPer = 2
	// maxEntryHead bounds an entry without its set, in buckets of any size.
	maxEntryHead = 5 + 10 + 10 + 3 + 2 + 2
	maxSet       = (actorstore.MaxNoteValue - bare.VersionSize - maxEntryHead) / setBytesPer
)

// An entry is one of the index.
type entry struct {
	id       uint32
	min, max int64 // Unix ms of records, both inclusive
	all, n   int
	set      []byte
}

// append appends an entry to a note that begins with the chunk first of the bucket.
func (e *entry) append(dst []byte, bucket int64, first uint32) []byte {
	dst = bare.AppendUint(dst, uint64(e.id-first))
	dst = bare.AppendUint(dst, uint64(e.min-bucket*1000))
	dst = bare.AppendUint(dst, uint64(e.max-e.min))
	dst = bare.AppendUint(bare.AppendUint(dst, uint64(e.all)), uint64(e.n))
	return bare.AppendData(dst, e.set)
}

// parseEntries decodes a note. The sets are parts of b.
func parseEntries(b []byte, k chunkKey) (entries []entry, err error) {
	body, err := openVersion(b, indexVersion)
	if err != nil {
		return nil, err
	}
	for r := bare.NewReader(body); len(r.Rest()) > 0; {
		var e entry
		id, from, long := r.Uint(), r.Uint(), r.Uint()
		all, n := r.Uint(), r.Uint()
		if n > all || all > math.MaxInt32 {
			r.Fail("%d of %d traces", n, all)
		}
		e.all, e.n = int(all), int(n)
		if e.set = r.Data(); e.n*setBits > 8*len(e.set) {
			r.Fail("%d traces in %d bytes", e.n, len(e.set))
		}
		if id > math.MaxUint32-uint64(k.id) || k.bucket < 0 || k.bucket > maxMillis/1000 ||
			from > maxMillis || long > maxMillis || k.bucket*1000+int64(from)+int64(long) > maxMillis {
			r.Fail("chunk %d, %d ms and %d", id, from, long)
		}
		if r.Err() != nil {
			return nil, fmt.Errorf("%w: %w", r.Err(), actorstore.ErrCorrupt)
		}
		e.id = k.id + uint32(id)
		e.min = k.bucket*1000 + int64(from)
		e.max = e.min + int64(long)
		entries = append(entries, e)
	}
	return entries, nil
}

// appendSet appends the set of hashes, which it sorts.
func appendSet(dst []byte, hashes []uint64) []byte {
	slices.Sort(hashes) // scaling keeps the order
	w := bitWriter{b: dst}
	last := uint64(0)
	for _, h := range hashes {
		v := scale(h, uint64(len(hashes))<<setBits)
		for delta := v - last; ; delta -= 1 << setBits {
			if delta < 1<<setBits {
				w.bits(delta, setBits+1) // a zero and the low bits
				break
			}
			w.bits(1, 1)
		}
		last = v
	}
	return w.b
}

// has reports whether the set of the entry seems to have the hash.
func (e *entry) has(hash uint64) bool {
	want := scale(hash, uint64(e.n)<<setBits)
	r := bitReader{b: e.set}
	v := uint64(0)
	for range e.n {
		for r.bits(1) == 1 {
			if v += 1 << setBits; v > want {
				return false
			}
		}
		if v += r.bits(setBits); v >= want {
			return v == want
		}
	}
	return false
}

// A bitWriter appends bits, the highest first.
type bitWriter struct {
	b    []byte
	free int // bits of the last byte that are not used
}

func (w *bitWriter) bits(v uint64, n int) {
	for ; n > 0; n-- {
		if w.free == 0 {
			w.b, w.free = append(w.b, 0), 8
		}
		w.free--
		w.b[len(w.b)-1] |= byte(v>>(n-1)&1) << w.free
	}
}

// A bitReader reads them; behind the end there are zeros.
type bitReader struct {
	b  []byte
	at int
}

func (r *bitReader) bits(n int) (v uint64) {
	for n > 0 {
		b, left := uint64(0), 8-r.at&7 // bits of the byte that are not read
		if i := r.at >> 3; i < len(r.b) {
			b = uint64(r.b[i]) & (1<<left - 1)
		}
		k := min(n, left)
		v = v<<k | b>>(left-k)
		r.at += k
		n -= k
	}
	return v
}

// A ledger is what is known of all chunks of a bucket that this package wrote.
type ledger struct {
	next   uint32 // above the ids of all chunks
	chunks uint32
	bytes  int64  // as a quota counts them
	seq    uint64 // of the chunk that was cut last
	last   uint32 // its id
	// since, if it is set, is a chunk from which on spans may be stored without an end
	// that the newest chunk doesn't list: their ends were recorded before that was cut,
	// and are not stored.
	since optional[numbered]
}

// A numbered is a chunk with its number in the order of cutting.
type numbered struct {
	key chunkKey
	seq uint64
}

// Version 1 had no since.
const ledgerVersion = 2

func (l *ledger) append(dst []byte) []byte {
	dst = bare.AppendU32(bare.AppendU32(bare.AppendVersion(dst, ledgerVersion), l.next), l.chunks)
	dst = bare.AppendU32(bare.AppendU64(bare.AppendU64(dst, uint64(l.bytes)), l.seq), l.last)
	if dst = bare.AppendBool(dst, l.since.set); l.since.set {
		m := l.since.value
		dst = bare.AppendU64(bare.AppendU32(bare.AppendU64(dst, uint64(m.key.bucket)), m.key.id), m.seq)
	}
	return dst
}

func parseLedger(b []byte) (l ledger, err error) {
	body, err := openVersion(b, ledgerVersion)
	if err != nil {
		return ledger{}, err
	}
	r := bare.NewReader(body)
	l.next, l.chunks = r.U32(), r.U32()
	bytes := r.U64()
	l.seq, l.last = r.U64(), r.U32()
	if bytes > math.MaxInt64 {
		r.Fail("%d bytes", bytes)
	}
	if v, _, _ := bare.Version(b); v > 1 && r.Bool() {
		bucket := r.U64()
		if bucket > math.MaxInt64 {
			r.Fail("a bucket at %d", bucket)
		}
		l.since = some(numbered{chunkKey{int64(bucket), r.U32()}, r.U64()})
	}
	if err := r.Done(); err != nil {
		return ledger{}, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	l.bytes = int64(bytes)
	return l, nil
}

// chunkBytes is what a chunk of so many bytes takes as a quota counts it.
func chunkBytes(l actorstore.Layout, k chunkKey, size int) int64 {
	return int64(len(appendChunkKey(l, make([]byte, 0, 32), k)) + 2 + size)
}

// dedupe sorts the hashes and removes those that occur twice.
func dedupe(hashes []uint64) []uint64 {
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// scale maps a hash evenly to [0, n).
func scale(hash, n uint64) uint64 {
	high, _ := bits.Mul64(hash, n)
	return high
}
