package traces

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A TraceID names a trace: 16 bytes, not all of them zero, as in W3C Trace Context
// (https://www.w3.org/TR/trace-context/). It prints as 32 lower-case hex digits.
type TraceID [16]byte

// A SpanID names a span: 8 bytes, not all of them zero. It prints as 16 lower-case hex
// digits.
type SpanID [8]byte

// IsZero reports whether id names no trace.
func (id TraceID) IsZero() bool { return id == TraceID{} }

// IsZero reports whether id names no span.
func (id SpanID) IsZero() bool { return id == SpanID{} }

// String returns the hex digits.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String returns the hex digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// ParseTraceID reads what String writes, in either case. Anything else is ErrID, and so
// is the zero id.
func ParseTraceID(s string) (id TraceID, err error) {
	if len(s) != 2*len(id) || !unhex(id[:], s) || id.IsZero() {
		return TraceID{}, fmt.Errorf("%w: %.80q is not a trace", ErrID, s)
	}
	return id, nil
}

// ParseSpanID reads what String writes, in either case. Anything else is ErrID, and so
// is the zero id.
func ParseSpanID(s string) (id SpanID, err error) {
	if len(s) != 2*len(id) || !unhex(id[:], s) || id.IsZero() {
		return SpanID{}, fmt.Errorf("%w: %.80q is not a span", ErrID, s)
	}
	return id, nil
}

// A Position is where a span stands in the order of a Result. It prints as 48 lower-case hex digits. The zero Position is before all spans.
type Position struct {
	at     uint64 // of the first record in the range, Unix ns
	bucket int64  // of its chunk
	chunk  uint32 // its number there
	count  uint32 // of records of the chunk up to it
}

// positionSize is the bytes of a Position that String writes.
const positionSize = 24

// IsZero reports whether p is before all spans.
func (p Position) IsZero() bool { return p == Position{} }

// String returns the hex digits.
func (p Position) String() string {
	b := binary.BigEndian.AppendUint64(nil, p.at)
	b = binary.BigEndian.AppendUint64(b, uint64(p.bucket))
	b = binary.BigEndian.AppendUint32(b, p.chunk)
	return hex.EncodeToString(binary.BigEndian.AppendUint32(b, p.count))
}

// ParsePosition reads what String writes, in either case. Anything else is ErrID.
func ParsePosition(s string) (Position, error) {
	var b [positionSize]byte
	if len(s) != 2*len(b) || !unhex(b[:], s) {
		return Position{}, fmt.Errorf("%w: %.80q is not a position", ErrID, s)
	}
	return Position{
		at: binary.BigEndian.Uint64(b[:]), bucket: int64(binary.BigEndian.Uint64(b[8:])),
		chunk: binary.BigEndian.Uint32(b[16:]), count: binary.BigEndian.Uint32(b[20:]),
	}, nil
}

// compare orders spans as a Result has them.
func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.bucket, o.bucket), cmp.Compare(p.chunk, o.chunk), cmp.Compare(p.count, o.count))
}

func unhex(dst []byte, s string) bool {
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// newTraceID and newSpanID return random ids.
func newTraceID() (id TraceID) {
	for id.IsZero() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id SpanID) {
	for id.IsZero() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// hashTrace returns a number that traces have in common rarely, and that is never 0.
// It is a part of the format of the index.
func hashTrace(id TraceID) uint64 {
	h := mix(binary.BigEndian.Uint64(id[:8])) + binary.BigEndian.Uint64(id[8:])
	return max(mix(h), 1)
}

// mix is the finalizer of SplitMix64 (https://prng.di.unimi.it/splitmix64.c).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// unixNano is t in Unix nanoseconds, as they can be stored.
func unixNano(t time.Time) uint64 {
	if t.Unix() < 0 {
		return 0
	}
	if t.Unix() >= math.MaxInt64/int64(1e9) {
		return math.MaxInt64
	}
	return uint64(t.UnixNano())
}

// timeOf returns the time, in UTC: nothing says where it was recorded.
func timeOf(ns uint64) time.Time { return time.Unix(0, int64(ns)).UTC() }
