package tuple

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"unicode/utf8"
)

// next decodes the first element of b, which is inside depth nested tuples.
func next(b []byte, depth int) (Element, []byte, error) {
	if len(b) == 0 {
		return nil, nil, malformed("no element")
	}
	code, b := b[0], b[1:]
	switch {
	case code == codeNull:
		return nil, b, nil
	case code == codeBytes:
		return wrap(unescape(nil, b))
	case code == codeString:
		return nextString(b)
	case code == codeNested:
		return nextNested(b, depth+1)
	case code == codeBigNegative || code == codeBigPositive:
		return nextBigInt(code, b)
	case code > codeBigNegative && code < codeBigPositive:
		return nextInt(code, b)
	case code == codeFloat32 || code == codeFloat64:
		return nextFloat(code, b)
	case code == codeFalse || code == codeTrue:
		return code == codeTrue, b, nil
	case code == codeUUID:
		return nextUUID(b)
	case code == codeVersionstamp:
		return nextVersionstamp(b)
	case code == codeID:
		return nextID(b)
	}
	return nil, nil, malformed("unknown type code")
}

// wrap makes an Element of a value that may come with an error.
func wrap(v, rest []byte, err error) (Element, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	return v, rest, nil
}

// take cuts n bytes off b.
func take(b []byte, n int) (head, rest []byte, err error) {
	if len(b) < n {
		return nil, nil, malformed("cut short")
	}
	return b[:n], b[n:], nil
}

// unescape appends to dst the escaped string that b begins with, and returns it
// with what follows the string's end.
func unescape(dst, b []byte) (value, rest []byte, err error) {
	if dst == nil {
		dst = []byte{}
	}
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return nil, nil, malformed("string without an end")
		}
		if i+1 == len(b) || b[i+1] != escape {
			return append(dst, b[:i]...), b[i+1:], nil
		}
		dst, b = append(dst, b[:i+1]...), b[i+2:]
	}
}

func nextString(b []byte) (Element, []byte, error) {
	s, rest, err := unescape(nil, b)
	if err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(s) {
		return nil, nil, malformed("string is not valid UTF-8")
	}
	return string(s), rest, nil
}

func nextNested(b []byte, depth int) (Element, []byte, error) {
	if depth > MaxDepth {
		return nil, nil, malformed("nested too deep")
	}
	t := Tuple{}
	for {
		switch {
		case len(b) == 0:
			return nil, nil, malformed("nested tuple without an end")
		case b[0] != 0:
			el, rest, err := next(b, depth)
			if err != nil {
				return nil, nil, err
			}
			t, b = append(t, el), rest
		case len(b) > 1 && b[1] == escape:
			t, b = append(t, nil), b[2:]
		default:
			return t, b[1:], nil
		}
	}
}

// nextInt decodes the body of an integer of at most 8 bytes.
func nextInt(code byte, b []byte) (Element, []byte, error) {
	m, negative, rest, err := magnitude(code, b)
	switch {
	case err != nil:
		return nil, nil, err
	case !negative && m > math.MaxInt64:
		return m, rest, nil
	case !negative:
		return int64(m), rest, nil
	case m > 1<<63:
		v := new(big.Int).SetUint64(m)
		return v.Neg(v), rest, nil
	}
	return int64(-m), rest, nil
}

// magnitude decodes the body of an integer of at most 8 bytes.
func magnitude(code byte, b []byte) (m uint64, negative bool, rest []byte, err error) {
	n := int(code) - codeZero
	negative = n < 0
	if negative {
		n = -n
	}
	body, rest, err := take(b, n)
	if err != nil {
		return 0, false, nil, err
	}
	for _, c := range body {
		if negative {
			c = ^c
		}
		m = m<<8 | uint64(c)
	}
	if byteLen(m) != n {
		return 0, false, nil, malformed("integer is not in its shortest form")
	}
	return m, negative, rest, nil
}

func nextBigInt(code byte, b []byte) (Element, []byte, error) {
	length, b, err := take(b, 1)
	if err != nil {
		return nil, nil, err
	}
	negative, n := code == codeBigNegative, length[0]
	if negative {
		n = ^n
	}
	body, rest, err := take(b, int(n))
	if err != nil {
		return nil, nil, err
	}
	if negative {
		body = bytes.Clone(body)
		invert(body)
	}
	if n <= 8 || body[0] == 0 {
		return nil, nil, malformed("integer is not in its shortest form")
	}
	v := new(big.Int).SetBytes(body)
	if negative {
		v.Neg(v)
	}
	return v, rest, nil
}

func nextFloat(code byte, b []byte) (Element, []byte, error) {
	if code == codeFloat32 {
		body, rest, err := take(b, 4)
		if err != nil {
			return nil, nil, err
		}
		// The high bit is the inverted sign; see orderedFloat32.
		u := binary.BigEndian.Uint32(body)
		if u>>31 == 0 {
			return math.Float32frombits(^u), rest, nil
		}
		return math.Float32frombits(u ^ 1<<31), rest, nil
	}
	body, rest, err := take(b, 8)
	if err != nil {
		return nil, nil, err
	}
	u := binary.BigEndian.Uint64(body)
	if u>>63 == 0 {
		return math.Float64frombits(^u), rest, nil
	}
	return math.Float64frombits(u ^ 1<<63), rest, nil
}

func nextUUID(b []byte) (Element, []byte, error) {
	body, rest, err := take(b, 16)
	if err != nil {
		return nil, nil, err
	}
	return UUID(body), rest, nil
}

func nextVersionstamp(b []byte) (Element, []byte, error) {
	body, rest, err := take(b, 12)
	if err != nil {
		return nil, nil, err
	}
	return Versionstamp{[10]byte(body), binary.BigEndian.Uint16(body[10:])}, rest, nil
}

func nextID(b []byte) (Element, []byte, error) {
	body, rest, err := take(b, idBody)
	if err != nil {
		return nil, nil, err
	}
	if body[0] != idVersion {
		return nil, nil, malformed("id of an unknown version")
	}
	return User{codeID, bytes.Clone(body)}, rest, nil
}

// NextBytes decodes the first element of b, which must be a byte string, and
// appends it to dst: Next without an allocation when dst is large enough. It
// returns the extended dst and what follows the element in b; anything else than
// a byte string is ErrMalformed.
func NextBytes(dst, b []byte) (value, rest []byte, err error) {
	if len(b) == 0 || b[0] != codeBytes {
		return nil, nil, malformed("not a byte string")
	}
	return unescape(dst, b[1:])
}

// NextInt decodes the first element of b, which must be an integer that fits an
// int64: Next without an allocation. Anything else is ErrMalformed.
func NextInt(b []byte) (v int64, rest []byte, err error) {
	if len(b) == 0 || b[0] <= codeBigNegative || b[0] >= codeBigPositive {
		return 0, nil, malformed("not an integer of 8 bytes")
	}
	m, negative, rest, err := magnitude(b[0], b[1:])
	switch {
	case err != nil:
		return 0, nil, err
	case negative && m <= 1<<63:
		return int64(-m), rest, nil
	case !negative && m <= math.MaxInt64:
		return int64(m), rest, nil
	}
	return 0, nil, malformed("integer does not fit int64")
}

// NextString decodes the first element of b if it is a string, and appends it to dst:
// Next without an allocation when dst is large enough. It returns the extended dst and
// what follows the element in b. ok is false if b begins with anything else, of which
// Next says what it is.
func NextString(dst, b []byte) (value, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != codeString {
		return nil, nil, false
	}
	value, rest, err := unescape(dst, b[1:])
	if err != nil || !utf8.Valid(value[len(dst):]) {
		return nil, nil, false
	}
	return value, rest, true
}

// Skip returns what follows the first element of b, a part of b. Behind a string, a byte
// string and an integer it is found without an allocation, and without a look at whether
// a string is UTF-8. Errors are those of Next.
func Skip(b []byte) (rest []byte, err error) {
	switch {
	case len(b) > 0 && (b[0] == codeString || b[0] == codeBytes):
		for i := 1; ; i += 2 {
			end := bytes.IndexByte(b[i:], 0)
			if end < 0 {
				return nil, malformed("string without an end")
			}
			if i += end; i+1 == len(b) || b[i+1] != escape {
				return b[i+1:], nil
			}
		}
	case len(b) > 0 && b[0] > codeBigNegative && b[0] < codeBigPositive:
		_, _, rest, err = magnitude(b[0], b[1:])
	default:
		_, rest, err = next(b, 0)
	}
	return rest, err
}

// Unpack decodes b, all of it, and returns its elements; the result shares no
// memory with b. Input that Append doesn't make is ErrMalformed: cut short, of an
// unknown type code, nested deeper than MaxDepth, or in another form than the one
// that Append gives the same value. Memory use is bound by the length of b,
// whatever lengths it claims.
func Unpack(b []byte) (Tuple, error) {
	t := Tuple{}
	for len(b) > 0 {
		el, rest, err := Next(b)
		if err != nil {
			return nil, err
		}
		t, b = append(t, el), rest
	}
	return t, nil
}

// Next decodes the first element of b and returns it with what follows it, a
// part of b. The errors are those of Unpack; an empty b is ErrMalformed too.
func Next(b []byte) (el Element, rest []byte, err error) { return next(b, 0) }
