package archive

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A segment is an object with records of a lineage, all from one number to another. In it they lie by group, so that what concerns
// one actor can be read alone:
//
//	8 bytes  magic
//	4        length of the index, little-endian
//	4        CRC-32C of the index, little-endian
//	         the index: a u16le version, 1, and BARE:
//	             first record uint, last record uint,
//	             SHA-256 of the record before the first one, and of the last one, data[16] each, their first halves,
//	             bytes of the records uint,
//	             list of times, each of the records up to the next one: records behind the first uint, ms since 1970 uint,
//	             list of blocks: first group data, last group data, bytes uint, bytes unpacked uint, CRC-32C u32
//	         the blocks, one behind the other: each a frame of Zstandard (RFC 8878) of runs, in order; as in BARE,
//	         but of any size:
//	             group data, list of fragments: records behind the first uint, operations data
//
// The operations of a record are those of one group, in the form that the log has them in; see pebblekv.RecordOp. A run may go on
// in the next block. The checksum of a record is of its bytes in the log.
const (
	segmentMagic   = "grnrseg\n"
	segmentVersion = 1
	segmentHeader  = len(segmentMagic) + 8
	// blockBytes is the size of a block before compression, in bytes; one with a larger fragment is larger.
	blockBytes = 64 << 10
	// maxIndex bounds the index of a segment that is read, in bytes, and maxBlock a block, unpacked.
	maxIndex = 64 << 20
	maxBlock = 1<<32 + 1<<20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A sum is the first half of a SHA-256.
type sum [16]byte

func sumOf(data []byte) sum {
	all := sha256.Sum256(data)
	return sum(all[:16])
}

// A run is what the records of a segment do in one group.
type run struct {
	fragments []byte // as they are stored, in the order of their records
	count     int
	before    int // bytes of those of the segment before
	due       int // bytes of operations that the record being added has for it, before they are appended
}

// A builder gathers the records of a segment, and of another one after reset: with the memory of the one before, for a store that is
// written to has about as much to say in the next second.
type builder struct {
	index
	groups map[group]*run
	key    []byte   // of a group
	placed []placed // of the record that is added
	tail   []byte   // the last record, unless its checksum is computed already
	idle   int      // how many segments in a row had no record

	unpacked, packed []byte // for encode
}

// placed are operations of a record that follow each other there, and the run in which they belong.
type placed struct {
	to  *run
	ops []byte
}

// An index says what is in a segment.
type index struct {
	first, last       uint64
	before, lastSum   sum
	size              int // of the records, in bytes
	times             []recordTime
	blocks            []block
	firstTime, latest int64 // of its records, in ms since 1970
}

// A recordTime says when the records from one on were made.
type recordTime struct {
	number uint64
	ms     int64
}

// A block is where some runs are.
type block struct {
	first, last    group
	at             int64 // in the object
	size, unpacked int
	crc            uint32
}

// newBuilder returns a builder of a segment behind a record with a checksum.
func newBuilder(before sum) *builder {
	b := &builder{groups: map[group]*run{}}
	b.reset(before)
	return b
}

// reset makes b one of a segment behind a record with a checksum. It keeps memory for as much as the segment before has had, or the one before that for a
// group, and lets go of the rest: of all after maxIdle segments without a record, which change nothing before that.
func (b *builder) reset(before sum) {
	if b.first == 0 && b.idle < maxIdle {
		b.idle++
		b.index = index{before: before, lastSum: before, times: b.times, blocks: b.blocks}
		return
	}
	if b.first > 0 {
		b.idle = 0
	}
	times, blocks := fitting(b.times), fitting(b.blocks)
	clear(blocks[:cap(blocks)]) // of the names of groups
	b.index = index{before: before, lastSum: before, times: times, blocks: blocks}
	for g, to := range b.groups {
		if to.count == 0 && to.before == 0 {
			delete(b.groups, g)
			continue
		}
		now := len(to.fragments)
		to.fragments, to.count, to.before = fitting(to.fragments[:max(now, min(to.before, cap(to.fragments)))]), 0, now
	}
	b.placed, b.packed, b.tail = fitting(b.placed), fitting(b.packed), nil
}

// maxIdle is how many segments may have no record until a builder lets go of its memory. One is begun each second.
const maxIdle = 10

// fitting returns s without what is in it, or nil if that was a small part of its room.
func fitting[T any](s []T) []T {
	if cap(s) > 4*len(s)+leastRoom {
		return nil
	}
	return s[:0]
}

// leastRoom is how much room is always kept, in elements.
const leastRoom = 16

// add adds the next record, of which it keeps nothing. Its time is at in ms, no earlier than that of the one before.
func (b *builder) add(r pebblekv.Record, at int64) error {
	if b.first == 0 {
		b.first, b.firstTime = r.Number, at
	}
	if at != b.latest || len(b.times) == 0 {
		b.times = append(b.times, recordTime{r.Number, at})
	}
	b.last, b.latest = r.Number, at
	b.size += len(r.Batch)
	if b.tail = b.tail[:0]; len(r.Batch) > blockBytes {
		b.lastSum = sumOf(r.Batch)
	} else {
		b.tail = append(b.tail, r.Batch...)
	}
	var whole *run // where all of the record belongs; nil: its operations are placed each by itself
	b.placed = b.placed[:0]
	var to *run
	var prefix []byte // of rows that are in the group of that, too
	for op, err := range r.Ops() {
		if err != nil {
			return err
		}
		if prefix == nil || op.End != nil || !bytes.HasPrefix(op.Key, prefix) {
			b.key, prefix = appendGroup(b.key[:0], &op)
			to = b.run(b.key)
			if string(b.key) == string(wide) {
				whole = to
			}
		}
		if n := len(b.placed); n > 0 && b.placed[n-1].to == to && adjacent(b.placed[n-1].ops, op.Raw) {
			last := &b.placed[n-1]
			last.ops = last.ops[:len(last.ops)+len(op.Raw)]
		} else {
			b.placed = append(b.placed, placed{to, op.Raw})
		}
	}
	for i := range b.placed {
		p := &b.placed[i]
		p.to = cmp.Or(whole, p.to)
		p.to.due += len(p.ops)
	}
	for _, p := range b.placed {
		if p.to.due > 0 {
			p.to.begin(r.Number-b.first, p.to.due)
		}
		p.to.fragments = append(p.to.fragments, p.ops...)
	}
	clear(b.placed)
	return nil
}

// adjacent reports whether one part of a slice, which has the room of the rest of it, begins where another one ends.
func adjacent(before, part []byte) bool { return cap(part) == cap(before)-len(before) }

// run returns the run of a group, given as its bytes, of which it keeps nothing.
func (b *builder) run(of []byte) *run {
	to := b.groups[group(of)]
	if to == nil {
		to = &run{}
		b.groups[group(of)] = to
	}
	return to
}

// begin begins the fragment of a record, which is behind the first one of the segment by so much, and has so many bytes of operations: they are to be appended.
func (r *run) begin(behind uint64, bytes int) {
	r.fragments = bare.AppendUint(bare.AppendUint(r.fragments, behind), uint64(bytes))
	r.count, r.due = r.count+1, 0
}

// fragmentSize returns how many bytes a fragment takes that add adds.
func fragmentSize(behind uint64, ops []byte) int {
	return uintSize(behind) + uintSize(uint64(len(ops))) + len(ops)
}

// add adds the fragment of a record behind those of earlier ones. It keeps nothing of ops.
func (r *run) add(behind uint64, ops []byte) {
	r.begin(behind, len(ops))
	r.fragments = append(r.fragments, ops...)
}

// encode returns the object, which is the caller's.
func (b *builder) encode(z *zstd.Encoder) []byte {
	if len(b.tail) > 0 {
		b.lastSum, b.tail = sumOf(b.tail), b.tail[:0]
	}
	runs, packed := b.unpacked[:0], b.packed[:0]
	var begun bool
	var now block
	end := func() {
		if !begun {
			return
		}
		from := len(packed)
		packed = z.EncodeAll(runs, packed)
		now.size, now.unpacked, now.crc = len(packed)-from, len(runs), crc32.Checksum(packed[from:], castagnoli)
		b.blocks = append(b.blocks, now)
		runs, begun = runs[:0], false
	}
	for _, g := range slices.Sorted(maps.Keys(b.groups)) {
		for rest, count := b.groups[g].fragments, b.groups[g].count; count > 0; {
			head := uintSize(uint64(len(g))) + len(g) + uintSize(uint64(count))
			n, size := count, len(rest)
			if len(runs)+head+size > blockBytes {
				n, size = upTo(rest, blockBytes-len(runs)-head)
			}
			if begun && len(runs)+head+size > blockBytes {
				end()
				continue
			}
			if !begun {
				begun, now = true, block{first: g}
			}
			now.last = g
			runs = bare.AppendUint(bare.AppendData(runs, []byte(g)), uint64(n))
			runs = append(runs, rest[:size]...)
			rest, count = rest[size:], count-n
		}
	}
	end()
	if b.packed, b.unpacked = packed, runs; cap(runs) > 2*blockBytes {
		b.unpacked = nil
	}
	in := b.index.append(nil)
	out := make([]byte, 0, segmentHeader+len(in)+len(packed))
	return append(appendHeader(out, in), packed...)
}

// upTo returns how many fragments at the beginning of a run are within so many bytes, and their size: the first one in any case.
func upTo(fragments []byte, most int) (count, size int) {
	for r := (&runReader{b: fragments}); len(r.b) > 0; count++ {
		r.uint()
		r.data()
		if end := len(fragments) - len(r.b); count == 0 || end <= most {
			size = end
		} else {
			break
		}
	}
	return count, size
}

// uintSize returns how many bytes bare.AppendUint appends.
func uintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// appendHeader appends the header of a segment, and its index.
func appendHeader(dst, in []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, segmentMagic...), uint32(len(in)))
	return append(binary.LittleEndian.AppendUint32(dst, crc32.Checksum(in, castagnoli)), in...)
}

// append appends the index as it is stored.
func (x *index) append(dst []byte) []byte {
	dst = bare.AppendUint(bare.AppendUint(bare.AppendVersion(dst, segmentVersion), x.first), x.last)
	dst = bare.AppendFixed(bare.AppendFixed(dst, x.before[:]), x.lastSum[:])
	dst = bare.AppendUint(bare.AppendUint(dst, uint64(x.size)), uint64(len(x.times)))
	for _, t := range x.times {
		dst = bare.AppendUint(bare.AppendUint(dst, t.number-x.first), uint64(t.ms))
	}
	dst = bare.AppendUint(dst, uint64(len(x.blocks)))
	for _, b := range x.blocks {
		dst = bare.AppendData(bare.AppendData(dst, []byte(b.first)), []byte(b.last))
		dst = bare.AppendU32(bare.AppendUint(bare.AppendUint(dst, uint64(b.size)), uint64(b.unpacked)), b.crc)
	}
	return dst
}

// errNoSegment says that an object isn't a segment, or one that is damaged.
var errNoSegment = fmt.Errorf("%w: it isn't a segment, or damaged", kv.ErrCorrupt)

// indexSize returns how many bytes the header and the index of a segment have, which begins with these bytes.
func indexSize(begin []byte) (int, error) {
	if len(begin) < segmentHeader || string(begin[:len(segmentMagic)]) != segmentMagic {
		return 0, errNoSegment
	}
	n := binary.LittleEndian.Uint32(begin[len(segmentMagic):])
	if n > maxIndex {
		return 0, errNoSegment
	}
	return segmentHeader + int(n), nil
}

// parseIndex returns the index of a segment, of which begin has at least what indexSize says.
func parseIndex(begin []byte) (*index, error) {
	n, err := indexSize(begin)
	if err != nil || len(begin) < n || crc32.Checksum(begin[segmentHeader:n], castagnoli) != binary.LittleEndian.Uint32(begin[len(segmentMagic)+4:]) {
		return nil, errNoSegment
	}
	version, body, err := bare.Version(begin[segmentHeader:n])
	if err != nil {
		return nil, errNoSegment
	}
	if version > segmentVersion {
		return nil, &kv.FormatError{What: "segment of a backup", Found: uint64(version), Known: segmentVersion}
	}
	r := bare.NewReader(body)
	x := &index{first: r.Uint(), last: r.Uint()}
	copy(x.before[:], r.Fixed(len(x.before)))
	copy(x.lastSum[:], r.Fixed(len(x.lastSum)))
	x.size = int(r.Uint())
	for range r.Len(maxIndex) {
		x.times = append(x.times, recordTime{x.first + r.Uint(), int64(r.Uint())})
	}
	at := int64(n)
	for range r.Len(maxIndex) {
		b := block{first: group(r.Data()), last: group(r.Data()), at: at, size: int(r.Uint()), unpacked: int(r.Uint()), crc: r.U32()}
		at += int64(b.size)
		x.blocks = append(x.blocks, b)
	}
	if r.Done() != nil || !x.sound() {
		return nil, errNoSegment
	}
	x.firstTime, x.latest = x.times[0].ms, x.times[len(x.times)-1].ms
	return x, nil
}

// sound reports whether an index can be that of a segment.
func (x *index) sound() bool {
	if x.first == 0 || x.last < x.first || len(x.times) == 0 || x.times[0].number != x.first {
		return false
	}
	for i, t := range x.times {
		if t.number > x.last || t.ms < 0 || i > 0 && (t.number <= x.times[i-1].number || t.ms < x.times[i-1].ms) {
			return false
		}
	}
	for i, b := range x.blocks {
		if b.last < b.first || i > 0 && b.first < x.blocks[i-1].last || b.size < 0 || int64(b.size) > maxBlock || b.unpacked < 0 || int64(b.unpacked) > maxBlock {
			return false
		}
	}
	return true
}

// timeOf returns when a record of the segment was made.
func (x *index) timeOf(number uint64) time.Time {
	i, there := slices.BinarySearchFunc(x.times, number, func(t recordTime, n uint64) int { return cmp.Compare(t.number, n) })
	if !there {
		i--
	}
	return time.UnixMilli(x.times[i].ms)
}

// lastBy returns the number of the last record that was made at a time or before, 0 if all were made later.
func (x *index) lastBy(ms int64) uint64 {
	for i, t := range x.times {
		if t.ms > ms {
			if i == 0 {
				return 0
			}
			return t.number - 1
		}
	}
	return x.last
}

// has reports whether a block may have fragments of a group.
func (b *block) has(g group) bool { return b.first <= g && g <= b.last }

// unpack yields the fragments of a block, with their groups; what it yields is the caller's. data are its bytes, and z is of
// newDecoder.
func (x *index) unpack(z *zstd.Decoder, b *block, data []byte) iter.Seq2[grouped, error] {
	return func(yield func(grouped, error) bool) {
		fail := func(err error) { yield(grouped{}, errors.Join(errNoSegment, err)) }
		if len(data) != b.size || crc32.Checksum(data, castagnoli) != b.crc {
			fail(nil)
			return
		}
		runs, err := decode(z, data, int64(b.unpacked))
		if err != nil || len(runs) != b.unpacked {
			fail(err)
			return
		}
		for r := (&runReader{b: runs}); len(r.b) > 0; {
			g := group(r.data())
			for range r.uint() {
				f := grouped{g, x.first + r.uint(), r.data()}
				if r.bad || f.number < x.first || f.number > x.last {
					fail(nil)
					return
				}
				if !yield(f, nil) {
					return
				}
			}
			if r.bad {
				fail(nil)
				return
			}
		}
	}
}

// A runReader reads the runs of a block. When it is bad it reads nothing more.
type runReader struct {
	b   []byte
	bad bool
}

func (r *runReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *runReader) data() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	data := r.b[:n:n]
	r.b = r.b[n:]
	return data
}

// grouped is a fragment: what one record does in one group.
type grouped struct {
	group  group
	number uint64
	ops    []byte
}
