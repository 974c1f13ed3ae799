// Package element reads and writes the values of an Implexus document store, in the bytes that are
// documented of its ElementWriter. A value is an element: one byte of tag, and a body. Numbers,
// lengths and counts have eight bytes, the high ones first; lengths and counts have a sign.
//
//	00 null        nothing
//	01 bool        one byte, 0 or 1
//	02 int64       two's complement
//	03 uint64
//	04 double      IEEE 754
//	05 string      length in bytes, UTF-8
//	06 binary      length, bytes
//	07 array       count, that many elements
//	08 dictionary  count, that many times a key and an element
//
// The documented text leaves two things open. For each the package writes one form and reads both.
//
//   - A key is written as length and UTF-8, without a tag. That is our reading of
//     "[count][key1][value1]": only of an array's elements does the text say that each has a type
//     code of its own. A key with the tag 05 is read, too. The first byte of a length is 00 in
//     any text that fits into memory, so it tells the forms apart, and a dictionary may mix them.
//   - A pair, such as "[type_code: int64, type_label: string]", is written as two elements, one
//     behind the other. An array of two elements is read, too.
//
// Equal values are written as equal bytes. Existing encodings will not change.
package element

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// MaxDepth is how many arrays and dictionaries a value may stand inside, written or read.
const MaxDepth = 64

const tagNull, tagBool, tagInt64, tagUint64, tagDouble, tagString, tagBinary, tagArray, tagDictionary = 0, 1, 2, 3, 4, 5, 6, 7, 8

var (
	// ErrCorrupt: bytes are not what the format allows. Decode, DecodePair and Strings return it
	// inside an *Error. It is of the kind errkind.ErrCorrupt.
	ErrCorrupt = errkind.New("element: corrupt", errkind.ErrCorrupt)
	// ErrValue: Append or AppendPair can't write a value. It has a type without an element, holds
	// text that is not UTF-8, or is nested deeper than MaxDepth.
	ErrValue = errors.New("element: unsuitable value")
)

// An Error says what is wrong with bytes, and where. It wraps ErrCorrupt.
type Error struct {
	Offset int    // where in the bytes the part begins that is wrong, from 0
	What   string // what is wrong there
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%v at byte %d: %s", ErrCorrupt, e.Offset, e.What) }

// Unwrap returns ErrCorrupt.
func (e *Error) Unwrap() error { return ErrCorrupt }

// Append appends the element of v to dst and returns the extended slice. It retains neither.
//
//	nil, bool                    null, bool
//	int, int8 … int64            int64
//	uint, uint8 … uint64         uint64
//	float32, float64             double
//	string, []byte               string, binary
//	[]any, []string              array
//	map[string]any               dictionary, in the order of its keys' bytes
//
// A nil slice or map is written as an empty one. The error is an ErrValue, and then Append
// returns dst as it was.
func Append(dst []byte, v any) ([]byte, error) { return appendAll(dst, v) }

// AppendPair appends a and b as two elements, one behind the other. Types, ownership and errors
// are those of Append.
func AppendPair(dst []byte, a, b any) ([]byte, error) { return appendAll(dst, a, b) }

// AppendArrayHeader appends what stands before the elements of an array of length n, which is
// not negative. The caller appends the n elements.
func AppendArrayHeader(dst []byte, n int) []byte { return appendWord(dst, tagArray, uint64(n)) }

// AppendString appends the element of a string. It does not check that s is UTF-8: readers
// refuse it otherwise.
func AppendString(dst []byte, s string) []byte {
	return append(appendWord(dst, tagString, uint64(len(s))), s...)
}

func appendWord(dst []byte, tag byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), n)
}

func appendAll(dst []byte, values ...any) ([]byte, error) {
	e := encoder{b: dst}
	for _, v := range values {
		e.value(v, 0)
	}
	if e.err != nil {
		return dst, e.err
	}
	return e.b, nil
}

// An encoder appends to b. After an error b is of no use.
type encoder struct {
	b   []byte
	err error
}

// value appends a value that stands inside so many arrays and dictionaries.
func (e *encoder) value(v any, depth int) {
	if depth > MaxDepth {
		e.err = fmt.Errorf("%w: nested deeper than %d", ErrValue, MaxDepth)
	}
	if e.err != nil {
		return
	}
	switch v := v.(type) {
	case nil:
		e.b = append(e.b, tagNull)
	case bool:
		e.b = append(e.b, tagBool, 0)
		if v {
			e.b[len(e.b)-1] = 1
		}
	case string:
		e.b = AppendString(e.b, e.utf8(v))
	case []byte:
		e.b = append(appendWord(e.b, tagBinary, uint64(len(v))), v...)
	case []string:
		e.b = AppendArrayHeader(e.b, len(v))
		for _, s := range v {
			e.value(s, depth+1)
		}
	case []any:
		e.b = AppendArrayHeader(e.b, len(v))
		for _, item := range v {
			e.value(item, depth+1)
		}
	case map[string]any:
		e.b = appendWord(e.b, tagDictionary, uint64(len(v)))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e.b = append(binary.BigEndian.AppendUint64(e.b, uint64(len(key))), e.utf8(key)...)
			e.value(v[key], depth+1)
		}
	default:
		r := reflect.ValueOf(v)
		switch plain := r.Type().PkgPath() == ""; { // not so time.Duration, which means more than a number
		case plain && r.CanInt():
			e.b = appendWord(e.b, tagInt64, uint64(r.Int()))
		case plain && r.CanUint():
			e.b = appendWord(e.b, tagUint64, r.Uint())
		case plain && r.CanFloat():
			e.b = appendWord(e.b, tagDouble, math.Float64bits(r.Float()))
		default:
			e.err = fmt.Errorf("%w: of the type %T", ErrValue, v)
		}
	}
}

func (e *encoder) utf8(s string) string {
	if !utf8.ValidString(s) {
		e.err = fmt.Errorf("%w: %.100q is not UTF-8", ErrValue, s)
	}
	return s
}
