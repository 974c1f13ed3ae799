package cbor

import (
	"bytes"
	"math"
)

// integers returns well-formed data with integers in place of the integral floats
// that JavaScript writes for large ones, so that they can be read into integers. It
// doesn't change data, and returns it as it is when there are none.
//
// Of 8 bytes they would be bigints to code that keeps the bytes. So these stand under
// a tag which readers skip, as it means nothing to them, and Keep finds them by it.
func integers(data []byte) []byte {
	var dst []byte
	done, date := 0, false
	for pos := 0; pos < len(data); {
		h := readHead(data[pos:])
		size := h.size
		if (h.major == majorBytes || h.major == majorText) && h.info != infoIndefinite {
			size += int(h.arg)
		}
		f, ok := h.float()
		if ok && !date && f == math.Trunc(f) && math.Abs(f) <= maxExact && f != 0 {
			dst = append(dst, data[done:pos]...)
			if math.Abs(f) > math.MaxUint32 {
				dst = AppendHead(dst, majorTag, tagNumber)
			}
			if f > 0 {
				dst = AppendHead(dst, majorUint, uint64(f))
			} else {
				dst = AppendHead(dst, majorNegative, uint64(-f)-1)
			}
			done = pos + size
		}
		date = h.major == majorTag && h.arg == tagDate
		pos += size
	}
	if done == 0 {
		return data
	}
	return append(dst, data[done:]...)
}

// headNumber is the head of tagNumber.
var headNumber = AppendHead(nil, majorTag, tagNumber)

// Keep returns a copy of what an UnmarshalCBOR was given by Unmarshal, as it was:
// numbers that Unmarshal turned into integers are floats again, where an integer
// would be a bigint. Code that keeps bytes for readers elsewhere must use it.
func Keep(b []byte) []byte {
	if !bytes.Contains(b, headNumber) || Wellformed(b) != nil {
		return append([]byte{}, b...)
	}
	dst := make([]byte, 0, len(b))
	done := 0
	for pos := 0; pos < len(b); {
		h := readHead(b[pos:])
		size := h.size
		if (h.major == majorBytes || h.major == majorText) && h.info != infoIndefinite {
			size += int(h.arg)
		}
		if h.major == majorTag && h.arg == tagNumber {
			dst = append(dst, b[done:pos]...)
			n := readHead(b[pos+size:])
			switch {
			case n.major == majorUint && n.arg > math.MaxUint32 && n.arg <= maxExact:
				dst, size = appendFloat(dst, float64(n.arg)), size+n.size
			case n.major == majorNegative && n.arg >= math.MaxUint32 && n.arg < maxExact:
				dst, size = appendFloat(dst, -1-float64(n.arg)), size+n.size
			}
			done = pos + size
		}
		pos += size
	}
	return append(dst, b[done:]...)
}
