// Package tuple encodes tuples of typed values as bytes that sort as the values
// do: the encoding of FoundationDB's tuple layer, byte for byte, so that keys are
// readable by every program that knows it. Sub-keyspaces are Subspace.
//
// The laws:
//
//   - order: bytes.Compare of two packed tuples is Compare of the tuples;
//   - concatenation: packed pieces, one after the other, are the packed longer
//     tuple, so a prefix of a tuple is a prefix of its bytes;
//   - one form: Unpack accepts exactly the bytes that Append makes.
//
// The bytes, one element after the other, each a type code and a body:
//
//	00     null              no body; inside a nested tuple 00 FF
//	01 02  bytes, UTF-8      each 00 as 00 FF, then 00
//	05     nested tuple      its elements, then 00
//	0b     integer, < 8 B    inverted length, inverted big-endian magnitude (9–255 bytes)
//	0c–13  integer, < 0      inverted big-endian magnitude of 8…1 bytes
//	14     zero              no body
//	15–1c  integer, > 0      big-endian magnitude of 1…8 bytes
//	1d     integer, > 8 B    length, big-endian magnitude (9–255 bytes)
//	20 21  float32, float64  big-endian IEEE 754; negative: all bits flipped, else the sign bit
//	26 27  false, true       no body
//	30     UUID              16 bytes
//	33     versionstamp      10 bytes of the transaction, 2 bytes of the user
//	40     id                01, 16 bytes of UUID, label as 2 bytes big-endian
//
// Integers take their shortest form. Existing encodings will not change. The
// format is described at
// https://github.com/apple/foundationdb/blob/main/design/tuple.md; code 40 is one
// of its user codes, with the body that actor ids have.
//
// tuple is not a serialization of values: it has no maps and no structs, and its
// errors and limits are those of keys.
package tuple

import "fmt"

// An Element is a value that a tuple can hold: nil, []byte, string, Tuple, int,
// int64, uint, uint64, *big.Int, float32, float64, bool, UUID, Versionstamp or User.
//
// A string must be valid UTF-8, a *big.Int not nil and of at most 255 bytes, a
// User one that this package knows the body of. Unpack gives an integer as int64
// if it fits, else uint64, else *big.Int.
type Element = any

// A Tuple is a sequence of elements.
type Tuple []Element

// A UUID is a UUID in its binary form.
type UUID [16]byte

// String returns u in the usual form, 8-4-4-4-12 hexadecimal digits.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// A User is an element of a type code that the format leaves to applications.
// The format doesn't say where the body of such an element ends, so only codes
// whose body is known here can be packed by Append and unpacked; see NewID.
type User struct {
	Code byte // 0x40 to 0x4f
	Body []byte
}

const (
	// MaxDepth is how deep tuples may be nested, the outermost not counted.
	MaxDepth = 100
	// maxBigInt is the largest magnitude in bytes: its length is one byte.
	maxBigInt = 255
)

const (
	codeNull         = 0x00
	codeBytes        = 0x01
	codeString       = 0x02
	codeNested       = 0x05
	codeBigNegative  = 0x0b
	codeZero         = 0x14 // n bytes of magnitude: 0x14 − n or 0x14 + n
	codeBigPositive  = 0x1d
	codeFloat32      = 0x20
	codeFloat64      = 0x21
	codeFalse        = 0x26
	codeTrue         = 0x27
	codeUUID         = 0x30
	codeVersionstamp = 0x33
	codeUserFirst    = 0x40
	codeUserLast     = 0x4f
	// escape follows a 00 that ends nothing. It is above every type code, which
	// is why a string sorts before a longer one that it begins.
	escape = 0xff

	// The id of an actor is the user code 0x40. The first byte of its body says
	// how the rest is laid out; 1 is the only layout there is.
	codeID    = 0x40
	idVersion = 1
	idBody    = 1 + 16 + 2
)
