package tuple

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// The Append functions below append one element to dst and return the extended
// slice. They allocate nothing when dst has room: for keys on hot paths, where
// a Tuple of interfaces would cost. They retain no argument.

// appendNull appends null, outside of nested tuples. There, appendNestedNull does: a null
// must not look like the end of the tuple.
func appendNull(dst []byte) []byte { return append(dst, codeNull) }

// appendNestedNull appends null inside a nested tuple, where a bare 00 would end
// the tuple.
func appendNestedNull(dst []byte) []byte { return append(dst, codeNull, escape) }

// AppendBytes appends a byte string.
func AppendBytes(dst, b []byte) []byte {
	return append(appendEscaped(append(dst, codeBytes), b), 0)
}

// AppendString appends a text. s must be valid UTF-8, which is not checked:
// Unpack will refuse it otherwise.
func AppendString(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, codeString), s), 0)
}

// AppendEscaped appends b as it stands inside a byte string, with neither the
// type code nor the end: with AppendBytes' code before it, a prefix of all byte
// strings that begin with b.
func AppendEscaped(dst, b []byte) []byte { return appendEscaped(dst, b) }

func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := range len(s) {
		if s[i] == 0 {
			dst = append(append(dst, s[from:i+1]...), escape)
			from = i + 1
		}
	}
	return append(dst, s[from:]...)
}

// AppendInt appends an integer.
func AppendInt(dst []byte, v int64) []byte {
	if v >= 0 {
		return AppendUint(dst, uint64(v))
	}
	return appendNegative(dst, -uint64(v))
}

// AppendUint appends an integer that is not negative.
func AppendUint(dst []byte, v uint64) []byte {
	n := byteLen(v)
	return appendLow(append(dst, byte(codeZero+n)), v, n)
}

// appendNegative appends −m, with 0 < m < 2^64.
func appendNegative(dst []byte, m uint64) []byte {
	n := byteLen(m)
	return appendLow(append(dst, byte(codeZero-n)), ^m, n)
}

func byteLen(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// appendLow appends the n low bytes of v, the highest first.
func appendLow(dst []byte, v uint64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// appendBigInt appends an integer of any size up to 255 bytes; a larger one, and
// nil, is ErrUnsupported, and dst is returned as it was.
func appendBigInt(dst []byte, v *big.Int) ([]byte, error) {
	if v == nil {
		return dst, unsupported("nil *big.Int")
	}
	n := (v.BitLen() + 7) / 8
	switch {
	case n > maxBigInt:
		return dst, unsupported("integer of %d bytes, limit %d", n, maxBigInt)
	case v.IsUint64():
		return AppendUint(dst, v.Uint64()), nil
	case v.IsInt64():
		return AppendInt(dst, v.Int64()), nil
	case v.Sign() > 0:
		dst = append(dst, codeBigPositive, byte(n))
	case n <= 8:
		dst = append(dst, codeZero-8)
	default:
		dst = append(dst, codeBigNegative, ^byte(n))
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	v.FillBytes(dst[at:])
	if v.Sign() < 0 {
		invert(dst[at:])
	}
	return dst, nil
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// appendFloat32 appends a float32. Every bit pattern is kept, and sorts: negative
// NaNs, −∞, …, −0, +0, …, +∞, NaNs.
func appendFloat32(dst []byte, f float32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, codeFloat32), orderedFloat32(f))
}

// AppendFloat64 appends a float64, as appendFloat32 does a float32.
func AppendFloat64(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, codeFloat64), orderedFloat64(f))
}

// orderedFloat32 maps f to a number that sorts as f does. IEEE 754 is sign and
// magnitude: turning the sign around puts the positive half above the negative
// one, and turning all bits around reverses the negative half.
func orderedFloat32(f float32) uint32 {
	const sign = 1 << 31
	u := math.Float32bits(f)
	if u&sign != 0 {
		return ^u
	}
	return u ^ sign
}

func orderedFloat64(f float64) uint64 {
	const sign = 1 << 63
	u := math.Float64bits(f)
	if u&sign != 0 {
		return ^u
	}
	return u ^ sign
}

// AppendBool appends a truth value.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendUUID appends a UUID.
func AppendUUID(dst []byte, u UUID) []byte {
	return append(append(dst, codeUUID), u[:]...)
}

// AppendVersionstamp appends a versionstamp, complete or not.
func AppendVersionstamp(dst []byte, v Versionstamp) []byte {
	dst = append(append(dst, codeVersionstamp), v.Transaction[:]...)
	return binary.BigEndian.AppendUint16(dst, v.User)
}

// appendUser appends an element of a user code with its body as it is, also one
// that Unpack doesn't know. It panics if the code is not a user code.
func appendUser(dst []byte, u User) []byte {
	if u.Code < codeUserFirst || u.Code > codeUserLast {
		panic("tuple: not a user code")
	}
	return append(append(dst, u.Code), u.Body...)
}

// AppendNestedStart begins a nested tuple. Its elements follow, with
// appendNestedNull for null, and then AppendNestedEnd.
func AppendNestedStart(dst []byte) []byte { return append(dst, codeNested) }

// AppendNestedEnd ends a nested tuple.
func AppendNestedEnd(dst []byte) []byte { return append(dst, 0) }
