package cbor

import (
	"encoding/binary"
	"math"
)

// The major types of a head, RFC 8949 §3.1.
const (
	majorUint = iota << 5
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

// Heads and tags of the profile.
const (
	headNull      = 0xf6
	headUndefined = 0xf7
	headObject    = 0xb9 // a map with a 16-bit count
	headBreak     = 0xff
	head64        = 0x1b // a positive integer of 8 bytes

	infoFloat64    = 27
	infoIndefinite = 31

	tagTime    = 0
	tagDate    = 1
	tagBig     = 2
	tagNegBig  = 3
	tagUint8s  = 64
	tagSet     = 258
	tagMap     = 259
	tagNumber  = 0x67726e6d // not a registered tag: see integers
	maxMembers = math.MaxUint16
)

// maxExact is up to where a float64 holds every integer.
const maxExact = 1 << 53

// A head is the beginning of an item: its type and its argument, which is a value, a
// length, a count, a tag, or the bits of a float, as the type says.
type head struct {
	major, info byte
	arg         uint64
	size        int // bytes of the head itself
}

// readHead reads the head at the beginning of b, which is well-formed.
func readHead(b []byte) head {
	h := head{major: b[0] &^ 31, info: b[0] & 31, size: 1}
	switch h.info {
	case 24:
		h.arg, h.size = uint64(b[1]), 2
	case 25:
		h.arg, h.size = uint64(binary.BigEndian.Uint16(b[1:])), 3
	case 26:
		h.arg, h.size = uint64(binary.BigEndian.Uint32(b[1:])), 5
	case 27:
		h.arg, h.size = binary.BigEndian.Uint64(b[1:]), 9
	case infoIndefinite:
	default:
		h.arg = uint64(h.info)
	}
	return h
}

// float returns the value of a head that is a float.
func (h head) float() (f float64, ok bool) {
	if h.major != majorSimple {
		return 0, false
	}
	switch h.info {
	case 25:
		return Float16(uint16(h.arg)), true
	case 26:
		return float64(math.Float32frombits(uint32(h.arg))), true
	case 27:
		return math.Float64frombits(h.arg), true
	}
	return 0, false
}

// Float16 returns the value of a half-precision float (RFC 8949 appendix D).
func Float16(h uint16) float64 {
	exp, mant := int(h>>10&31), float64(h&1023)
	var f float64
	switch exp {
	case 0:
		f = math.Ldexp(mant, -24)
	case 31:
		if f = math.Inf(1); mant != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(mant+1024, exp-25)
	}
	if h&0x8000 != 0 {
		return -f
	}
	return f
}

// appendNumber appends an integral number as JavaScript's would be written.
func appendNumber(dst []byte, f float64) []byte {
	switch {
	case f == 0:
		return append(dst, 0) // also −0
	case f > 0 && f <= math.MaxUint32:
		return AppendHead(dst, majorUint, uint64(f))
	case f < 0 && f >= -1<<32:
		return AppendHead(dst, majorNegative, uint64(-f)-1)
	}
	return appendFloat(dst, f)
}

func appendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, majorSimple|infoFloat64), math.Float64bits(f))
}

// AppendHead appends the shortest head of an item: its major type, in the highest three bits
// of major, and its argument, as RFC 8949 §3 has them.
func AppendHead(dst []byte, major byte, arg uint64) []byte {
	switch {
	case arg < 24:
		return append(dst, major|byte(arg))
	case arg <= math.MaxUint8:
		return append(dst, major|24, byte(arg))
	case arg <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(arg))
	case arg <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), arg)
}
