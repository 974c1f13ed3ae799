// Package bare encodes and decodes BARE messages, and the two bytes of version
// that stand before them in stored values.
//
// BARE (https://baremessages.org) is a compact binary form for messages whose schema both
// sides know: nothing in the bytes says what they are. This package has no schema
// compiler. A type writes its fields with the Append functions, in order, and reads them
// with a Reader in the same order:
//
//	dst = bare.AppendVersion(dst, 1)
//	dst = bare.AppendU64(dst, size)
//
//	v, body, err := bare.Version(b)
//	r := bare.NewReader(body)
//	size := r.U64()
//	if err := r.Done(); err != nil { … }
//
// Decoding is strict: a value has one form, every byte must be used, and what a
// length claims is believed only as far as the input goes. So decoding what was
// encoded and encoding it again gives the same bytes, and damage is noticed.
//
// The types of BARE, and how they are written here:
//
//	uint             AppendUint: 7 bits a byte, the low ones first, at most 10 bytes
//	u8 … u64, i64    AppendU8 … AppendU64, AppendI64: little-endian
//	bool             AppendBool: one byte, 0 or 1
//	str, data        AppendString, AppendData: a uint of length and the bytes; str is UTF-8
//	data[n]          AppendFixed: the bytes
//	optional<T>      AppendBool(present), then T if present
//	list<T>, map<K,V> AppendUint(count), then the elements, or keys and values in turn
//	enum, union      AppendU8(tag), then the value of a union; tags here stay below 128
//
// Other integers of BARE with a sign, and its floats, are in nothing that is stored here, so
// that there is nothing to write them with: floats within values are those of package
// cbor, and times are u64 or i64. A format that needs one adds it here, with its test, and
// with golden bytes of the format.
//
// Writers of a map emit it in a fixed order, so that equal values are equal bytes.
package bare

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed: bytes are not a BARE message of the expected type. Every error of
// a Reader and of Version wraps it and says what is wrong and where.
var ErrMalformed = errors.New("bare: malformed")

const (
	// MaxSize bounds a message in bytes, 32 MiB: readers refuse larger ones.
	MaxSize = 32 << 20
	// VersionSize is the length of the version before a message in bytes.
	VersionSize = 2
)

// AppendVersion appends the version of the message that follows: 2 bytes,
// little-endian.
func AppendVersion(dst []byte, v uint16) []byte { return AppendU16(dst, v) }

// Version splits a stored value into the version and the message behind it, which
// is a part of b. Fewer than 2 bytes are ErrMalformed. Which versions exist is
// for the caller to know, and an unknown one is an error.
func Version(b []byte) (v uint16, rest []byte, err error) {
	if len(b) < VersionSize {
		return 0, nil, fmt.Errorf("%w: %d bytes are too short for a version", ErrMalformed, len(b))
	}
	return binary.LittleEndian.Uint16(b), b[VersionSize:], nil
}

// The Append functions append one value to dst and return the extended slice.
// They retain no argument and allocate nothing when dst has room.

// AppendUint appends a uint in its shortest form.
func AppendUint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendU8 appends a u8, or the tag of a union or an enum.
func AppendU8(dst []byte, v uint8) []byte { return append(dst, v) }

// AppendU16 appends a u16.
func AppendU16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }

// AppendU32 appends a u32.
func AppendU32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }

// AppendU64 appends a u64.
func AppendU64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }

// AppendI64 appends an i64.
func AppendI64(dst []byte, v int64) []byte { return AppendU64(dst, uint64(v)) }

// AppendBool appends a bool, or says whether an optional is present.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendString appends a str. s must be valid UTF-8, which is not checked: readers
// refuse it otherwise.
func AppendString(dst []byte, s string) []byte {
	return append(AppendUint(dst, uint64(len(s))), s...)
}

// AppendData appends data of any length.
func AppendData(dst, b []byte) []byte {
	return append(AppendUint(dst, uint64(len(b))), b...)
}

// AppendFixed appends data of a length that the schema knows.
func AppendFixed(dst, b []byte) []byte { return append(dst, b...) }
