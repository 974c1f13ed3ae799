package pgkv

import "encoding/binary"

// Parameters in the binary form of the protocol.
// https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/utils/adt/arrayfuncs.c

// An array is a bytea[] that is being written, or an int8[] if all its elements are
// added as numbers.
type array struct {
	buf     []byte
	n       int
	numbers bool
}

// arrayHeader is how many bytes come before the elements: dimensions, whether there
// are NULLs, the type of the elements, their number, the index of the first.
const arrayHeader = 20

// reset empties the array and keeps its memory.
func (a *array) reset() { a.buf, a.n, a.numbers = a.buf[:0], 0, false }

// number appends a number.
func (a *array) number(n int64) {
	a.numbers = true
	a.add(int8Param(n))
}

// add appends an element; nil is NULL.
func (a *array) add(b []byte) {
	if a.n == 0 {
		a.buf = append(a.buf[:0], make([]byte, arrayHeader)...)
	}
	a.n++
	if b == nil {
		a.buf = binary.BigEndian.AppendUint32(a.buf, 1<<32-1)
		a.buf[7] = 1
		return
	}
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(b)))
	a.buf = append(a.buf, b...)
}

// bytes returns the array, which is valid until the next add or reset.
func (a *array) bytes() []byte {
	if a.n == 0 {
		a.buf = append(a.buf[:0], make([]byte, 12)...) // no dimensions
	} else {
		binary.BigEndian.PutUint32(a.buf, 1)
		binary.BigEndian.PutUint32(a.buf[12:], uint32(a.n))
		binary.BigEndian.PutUint32(a.buf[16:], 1)
	}
	oid := uint32(oidBytea)
	if a.numbers {
		oid = oidInt8
	}
	binary.BigEndian.PutUint32(a.buf[8:], oid)
	return a.buf
}

func int8Param(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
func int4Param(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
