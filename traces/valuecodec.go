package traces

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// Values are stored in CBOR (RFC 8949, https://www.rfc-editor.org/rfc/rfc8949) such that
// JavaScript's cbor-x reads the same value, and that it comes back here as what it was:
//
//	bool, text, bytes, null    as they are; of text, what is not UTF-8 is replaced
//	integer to 32 bits         an integer; JavaScript reads a number
//	integer beyond             an integer of 8 bytes, tag 2 or 3 beyond that: a bigint
//	float                      a float of 8 bytes, NaN and the infinities too, but for
//	                           whole numbers from 2³² to 2⁵³, which JavaScript writes for
//	                           its integers: 4 bytes if they hold it, else under tag 55799
//	time                       tag 0, text as in RFC 3339, which JavaScript reads as a Date
//	array, map                 as they are; a map with a count of 16 bits
//
// What is read besides is what cbor-x writes: tag 1, a Date; those whole numbers as integers, Sets, Maps
// and typed arrays as arrays and maps, Uint8Array as bytes, undefined as null.
const (
	majorUint   = 0 << 5
	majorNeg    = 1 << 5
	majorBytes  = 2 << 5
	majorText   = 3 << 5
	majorArray  = 4 << 5
	majorMap    = 5 << 5
	majorTag    = 6 << 5
	majorSimple = 7 << 5

	head64      = 27
	headFalse   = 0xf4
	headTrue    = 0xf5
	headNull    = 0xf6
	headUndef   = 0xf7
	headFloat16 = 0xf9
	headFloat32 = 0xfa
	headFloat64 = 0xfb
	headMap16   = 0xb9

	tagTime      = 0
	tagDate      = 1
	tagBig       = 2
	tagNegBig    = 3
	tagTransport = 55799 // self-described CBOR, which changes nothing (RFC 8949 §3.4.6)

	maxJSInt   = 1 << 53
	maxMembers = math.MaxUint16
)

// maxDepth bounds how deep arrays and maps are nested: a value that is deeper can't be stored.
const maxDepth = 32

// A valueEncoder appends values. It cuts texts longer than limit characters, and bytes
// longer than as many bytes, if that is positive, and what is longer than bytes, if that
// is, and says so. Values that are longer than most bytes, unless that is 0, it leaves
// unfinished: one that holds another in many places may have no end to speak of.
type valueEncoder struct {
	limit, bytes, most int
	cut                bool
}

// append appends v; it reports false for one that can't be stored, and then what it
// appended is to be thrown away.
func (e *valueEncoder) append(dst []byte, v *Value, depth int) ([]byte, bool) {
	switch v.typ {
	case typeNull:
		return append(dst, headNull), true
	case typeBool:
		return append(dst, headFalse+byte(v.num)), true
	case typeInt:
		return appendInt(dst, int64(v.num)), true
	case typeFloat:
		return appendFloat(dst, math.Float64frombits(v.num)), true
	case typeString:
		return e.appendText(dst, v.text), true
	case typeBytes:
		b := v.text
		for _, most := range [...]int{e.limit, e.bytes} {
			if most > 0 && len(b) > most {
				b, e.cut = b[:most], true
			}
		}
		return append(cbor.AppendHead(dst, majorBytes, uint64(len(b))), b...), true
	case typeTime:
		return cbor.AppendTime(dst, v.asTime())
	case typeBig:
		return appendBig(dst, v.list.(*big.Int)), true
	}
	if depth > maxDepth || e.most > 0 && len(dst) > e.most {
		return dst, false
	}
	if v.typ == typeArray {
		return e.appendArray(dst, v.asArray(), depth+1)
	}
	return e.appendMap(dst, v.asMap(), depth+1)
}

func (e *valueEncoder) appendArray(dst []byte, list []Value, depth int) ([]byte, bool) {
	dst, ok := cbor.AppendHead(dst, majorArray, uint64(len(list))), true
	for i := range list {
		if e.most > 0 && len(dst) > e.most {
			return dst, false
		}
		if dst, ok = e.append(dst, &list[i], depth); !ok {
			return dst, false
		}
	}
	return dst, true
}

func (e *valueEncoder) appendMap(dst []byte, members []Attr, depth int) ([]byte, bool) {
	if len(members) > maxMembers {
		return dst, false
	}
	dst, ok := binary.BigEndian.AppendUint16(append(dst, headMap16), uint16(len(members))), true
	for i := range members {
		key := strings.ToValidUTF8(members[i].Key, "\uFFFD")
		dst = append(cbor.AppendHead(dst, majorText, uint64(len(key))), key...)
		if dst, ok = e.append(dst, &members[i].Value, depth); !ok {
			return dst, false
		}
	}
	return dst, true
}

func (e *valueEncoder) appendText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if short := cutBytes(cutText(s, e.limit), e.bytes); len(short) < len(s) {
		s, e.cut = short, true
	}
	return append(cbor.AppendHead(dst, majorText, uint64(len(s))), s...)
}

// cutText returns the first limit characters of s, all if limit isn't positive.
func cutText(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}

// cutBytes returns the first characters of s that have most bytes together, all if most
// isn't positive.
func cutBytes(s string, most int) string {
	if most <= 0 || len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// cuttable reports whether a part of the value is of use.
func (v *Value) cuttable() bool { return v.typ == typeString || v.typ == typeBytes }

func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return cbor.AppendHead(dst, majorNeg, uint64(-(n + 1)))
	}
	return cbor.AppendHead(dst, majorUint, uint64(n))
}

func appendFloat(dst []byte, f float64) []byte {
	if isJSInt(f) {
		if short := float32(f); float64(short) == f {
			return binary.BigEndian.AppendUint32(append(dst, headFloat32), math.Float32bits(short))
		}
		dst = cbor.AppendHead(dst, majorTag, tagTransport)
	}
	return binary.BigEndian.AppendUint64(append(dst, headFloat64), math.Float64bits(f))
}

// isJSInt reports whether f, as 8 bytes, is how JavaScript writes an integer.
func isJSInt(f float64) bool {
	abs := math.Abs(f)
	return abs > math.MaxUint32 && abs <= maxJSInt && abs == math.Trunc(abs)
}

func appendBig(dst []byte, n *big.Int) []byte {
	if n.Sign() >= 0 {
		if n.IsUint64() {
			return cbor.AppendHead(dst, majorUint, n.Uint64())
		}
		b := n.Bytes()
		return append(cbor.AppendHead(cbor.AppendHead(dst, majorTag, tagBig), majorBytes, uint64(len(b))), b...)
	}
	m := new(big.Int).Not(n) // −1−n
	if m.IsUint64() {
		return cbor.AppendHead(dst, majorNeg, m.Uint64())
	}
	b := m.Bytes()
	return append(cbor.AppendHead(cbor.AppendHead(dst, majorTag, tagNegBig), majorBytes, uint64(len(b))), b...)
}
