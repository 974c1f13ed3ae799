package bare

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// A Reader reads the values of one message in order. The first error sticks: every
// later read returns a zero value, so a decoder may read a whole message and look
// at Err or Done once. Loops end too, since Len returns 0.
//
// A Reader is not safe for concurrent use. It reads from the caller's bytes, which
// must not change meanwhile.
type Reader struct {
	b   []byte
	at  int
	err error
}

// NewReader returns a Reader of the message b. One over MaxSize is an error that
// the first read meets.
func NewReader(b []byte) *Reader {
	r := &Reader{b: b}
	if len(b) > MaxSize {
		r.tooLarge()
	}
	return r
}

// tooLarge is apart so that NewReader is inlined and its Reader stays on the
// caller's stack.
//
//go:noinline
func (r *Reader) tooLarge() { r.Fail("message of %d bytes, limit %d", len(r.b), MaxSize) }

// Err returns the first error; it wraps ErrMalformed.
func (r *Reader) Err() error { return r.err }

// Done ends the message and returns the first error: bytes that were not read
// are one.
func (r *Reader) Done() error {
	if r.err == nil && r.at < len(r.b) {
		r.Fail("%d bytes remain", len(r.b)-r.at)
	}
	return r.err
}

// Rest returns the bytes not read yet, a part of the message: for formats that
// allow something behind it. After an error it returns nil.
func (r *Reader) Rest() []byte {
	if r.err != nil {
		return nil
	}
	return r.b[r.at:]
}

// Fail makes r fail, if it hasn't yet, with an error that wraps ErrMalformed, says
// where the reader stands, and why: for what the schema forbids and bytes don't
// show, as a map key that occurs twice.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w at byte %d: %s", ErrMalformed, r.at, fmt.Sprintf(format, args...))
	}
}

// Fixed reads data of n bytes, n ≥ 0. The result is a part of the message; after
// an error it is nil.
func (r *Reader) Fixed(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b)-r.at {
		r.Fail("%d bytes wanted, %d left", n, len(r.b)-r.at)
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

// U8 reads a u8.
func (r *Reader) U8() uint8 {
	if b := r.Fixed(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads a u16.
func (r *Reader) U16() uint16 {
	if b := r.Fixed(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// U32 reads a u32.
func (r *Reader) U32() uint32 {
	if b := r.Fixed(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 reads a u64.
func (r *Reader) U64() uint64 {
	if b := r.Fixed(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// I64 reads an i64.
func (r *Reader) I64() int64 { return int64(r.U64()) }

// Uint reads a uint. One that is not in its shortest form, or over 64 bits, is an
// error.
func (r *Reader) Uint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	switch {
	case n == 0:
		r.Fail("uint without an end")
	case n < 0:
		r.Fail("uint of more than 64 bits")
	case n > 1 && r.b[r.at+n-1] == 0:
		r.Fail("uint is not in its shortest form")
	default:
		r.at += n
		return v
	}
	return 0
}

// Bool reads a bool, or whether an optional is present: 0 or 1, else an error.
func (r *Reader) Bool() bool {
	v := r.U8()
	if v > 1 {
		r.at--
		r.Fail("bool is %d", v)
		return false
	}
	return v == 1
}

// Tag reads the tag of a union or an enum that has n tags, and returns it; a tag
// ≥ n is an error. Up to 128 tags, its one byte is also a uint of that value.
func (r *Reader) Tag(n int) uint8 {
	v := r.U8()
	if r.err == nil && int(v) >= n {
		r.at--
		r.Fail("invalid tag %d of %d", v, n)
		return 0
	}
	return v
}

// Len reads the count of a list or a map of at most limit elements. More than
// that is an error, and so is a count larger than the number of bytes left:
// every element takes at least one, so memory may be set aside for the count.
func (r *Reader) Len(limit int) int {
	at := r.at
	n := r.Uint()
	if left := len(r.b) - r.at; r.err == nil && (n > uint64(limit) || n > uint64(left)) {
		r.at = at
		r.Fail("count %d, limit %d, %d bytes left", n, limit, left)
		return 0
	}
	return int(n)
}

// Data reads data of any length. The result is a part of the message and keeps
// all of it in memory; DataCopy returns bytes of their own. After an error it is nil.
func (r *Reader) Data() []byte {
	at := r.at
	n := r.Uint()
	if left := len(r.b) - r.at; r.err == nil && n > uint64(left) {
		r.at = at
		r.Fail("length %d, %d bytes left", n, left)
		return nil
	}
	return r.Fixed(int(n))
}

// DataCopy reads data of any length into memory of its own. After an error it is
// nil, else not.
func (r *Reader) DataCopy() []byte { return bytes.Clone(r.Data()) }

// String reads a str. Invalid UTF-8 is an error.
func (r *Reader) String() string {
	at := r.at
	b := r.Data()
	if !utf8.Valid(b) {
		r.at = at
		r.Fail("str is not valid UTF-8")
		return ""
	}
	return string(b)
}
