// Package cbor is the profile of CBOR (RFC 8949, https://www.rfc-editor.org/rfc/rfc8949)
// in which JavaScript programs write values with the package cbor-x
// (https://github.com/kriszyp/cbor-x) and its default options. Messages, states, and
// the inputs and outputs of workflows are stored in it, so that a Go program and a
// TypeScript one can read the same actor.
//
// What the profile has of its own:
//
//   - An object is a map with a 16-bit count, however small it is. A map with a
//     shortest count is one too, for a reader; under tag 259 it is a JavaScript Map.
//   - A JavaScript number has no integer type. From −2³² to 2³²−1 an integral number
//     is written as an integer, beyond that as a 64-bit float. So an integer of Go
//     becomes a float there if a float holds it exactly, and a reader takes an
//     integral float for an integer.
//   - Integers of 8 bytes, and tags 2 and 3, are a JavaScript bigint, of at most maxBigint
//     bytes.
//   - undefined (F7) is not null (F6).
//   - A Date is seconds under tag 1. A time of Go is text under tag 0, which JavaScript
//     reads as a Date as well: a Date has neither nanoseconds nor a time zone.
//   - There is no NaN and no infinity: what is stored must mean something to everybody.
//
// Go values are encoded by github.com/fxamacker/cbor, with its struct tags (`cbor`,
// or `json` where that is missing), and what it writes is rewritten into the profile.
package cbor

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Errors of this package. Others wrap what github.com/fxamacker/cbor says. However long
// the input, their texts aren't: what is quoted of it is cut.
var (
	// errMalformed: bytes are not one well-formed value of the profile.
	errMalformed = errors.New("cbor: malformed")
	// ErrUnsupported: a value can't be written in the profile. It comes as a
	// *ValueError where the place in the value is known.
	ErrUnsupported = errors.New("cbor: value can't be stored")
)

// A ValueError says which part of a value can't be stored. It wraps ErrUnsupported.
type ValueError struct {
	Path string // as in JavaScript, such as order.items[3].price; empty for the value itself
	What string // what is there
}

// Error names the place and what is there.
func (e *ValueError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v: %s", ErrUnsupported, e.What)
	}
	return fmt.Sprintf("%v: %s at %s", ErrUnsupported, e.What, e.Path)
}

// Unwrap returns ErrUnsupported.
func (e *ValueError) Unwrap() error { return ErrUnsupported }

// maxBigint is the length in bytes of the largest bigint that is read or written, 8192
// bits. A number is more than a run of bytes: to print one takes time that grows faster
// than its length.
const maxBigint = 1024

// maxText bounds, in bytes, what an error quotes of the input or of what is below.
const maxText = 512

// clip cuts a text that may hold a piece of the input.
func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// A bare is what github.com/fxamacker/cbor says about input, without its prefix, which is
// ours, too. It may quote a whole key or text of the input.
type bare struct{ error }

func (e bare) Error() string { return clip(strings.TrimPrefix(e.error.Error(), "cbor: ")) }

func (e bare) Unwrap() error { return e.error }

// Bounds of what is read. An element takes at least a byte, so the input bounds the
// memory; the depth bounds the stack.
const (
	maxDepth    = 128
	maxElements = 1 << 24
	// maxValue is how deep a value may be that is written: what takes it along, as a message
	// does that a workflow has received, must stay below maxDepth.
	maxValue = maxDepth - 8
)

var (
	encOptions = cbor.EncOptions{
		Sort: cbor.SortNone,
		// Seconds in a float lose the nanoseconds, and the zone
		// (https://github.com/fxamacker/cbor/issues/694).
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired,
		BigIntConvert: cbor.BigIntConvertNone,
		NilContainers: cbor.NilContainerAsEmpty,
	}
	decOptions = cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  maxDepth,
		MaxArrayElements: maxElements,
		MaxMapPairs:      maxElements,
		IntDec:           cbor.IntDecConvertSignedOrBigInt,
		BigIntDec:        cbor.BigIntDecodePointer,
		// A Set is a []any to who has no better type, and so on.
		UnrecognizedTagToAny: cbor.UnrecognizedTagContentToAny,
	}

	plainEncoding = must(encOptions.EncMode())
	plainDecoding = must(decOptions.DecMode())
	// These are for types that hold one which only MarshalText can write.
	textEncoding = must(func(o cbor.EncOptions) cbor.EncOptions {
		o.TextMarshaler = cbor.TextMarshalerTextString
		return o
	}(encOptions).EncMode())
	textDecoding = must(func(o cbor.DecOptions) cbor.DecOptions {
		o.TextUnmarshaler = cbor.TextUnmarshalerTextString
		return o
	}(decOptions).DecMode())
	// This one is for a Date.
	dateEncoding = must(cbor.EncOptions{Time: cbor.TimeUnixDynamic, TimeTag: cbor.EncTagRequired}.EncMode())
)

// must is for options that are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal returns v in the profile. Structs and maps with keys of text become objects,
// []byte becomes bytes, time.Time a text as in RFC 3339 under tag 0, *big.Int a bigint; a
// nil slice is an empty array, a nil pointer or interface is null. The order of a Go map's
// members is not defined; an Object keeps its own.
//
// Unmarshal gives back what Marshal has taken, apart from what docs/state.md lists. What it
// couldn't give back is ErrUnsupported, as a *ValueError: NaN and infinities, text that isn't
// UTF-8, bigints of more than maxBigint bytes, what is nested deeper than maxValue, keys that
// are one when they are read, channels and functions, what stands in an interface that has
// methods (see Typed), and types of which nothing would be stored.
func Marshal(v any) ([]byte, error) { return encode(v, maxValue) }

// Typed returns v as Marshal takes it. If T is an interface with methods that is a pointer to
// it: what it holds can't be read back as a T, and doesn't show by itself that it must be.
func Typed[T any](v T) any {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Interface && t.NumMethod() > 0 {
		return &v
	}
	return v
}

// Wrap is Marshal for what takes along values that Marshal has made, and may be nested a
// little deeper.
func Wrap(v any) ([]byte, error) { return encode(v, maxDepth) }

func encode(v any, depth int) ([]byte, error) {
	c := checker{left: maxElements}
	if err := c.any(v); err != nil {
		return nil, err
	}
	mode := plainEncoding
	if c.text {
		mode = textEncoding
		if p := planOf(reflect.TypeOf(v)); !p.text { // nor does the reader expect text
			c.both = cmp.Or(c.both, p.both)
		}
		switch {
		case c.oneWay != nil:
			return nil, c.refuse("%s", methodText.trouble(c.oneWay))
		case c.both != nil:
			return nil, c.refuse("a %v beside what is stored as text, one of them in an any", c.both)
		}
	}
	b, err := mode.Marshal(v)
	if err != nil {
		var bad *ValueError
		if errors.As(err, &bad) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, bare{err})
	}
	w := rewriter{src: b, left: depth, keys: c.keys}
	return w.rewrite()
}

// Valid returns an error unless data is one value that Unmarshal takes, and that may be
// stored: Wellformed, its texts UTF-8, its keys different, and not nested deeper than what
// Marshal makes.
func Valid(data []byte) error {
	if err := Wellformed(data); err != nil {
		return err
	}
	w := rewriter{src: data, left: maxValue, keys: true, foreign: true}
	_, err := w.rewrite()
	return err
}

// Unmarshal decodes data into what v points to. Null and undefined leave it as it is,
// or set a pointer to nil. Into an any go nil, bool, int64, *big.Int, float64, string,
// []byte, time.Time, []any and map[any]any; Decode keeps more. An UnmarshalCBOR that keeps
// what it is given must do so with Keep.
//
// Damaged or trailing bytes are errMalformed; a value of another type is an error of
// github.com/fxamacker/cbor.
func Unmarshal(data []byte, v any) error {
	if err := Wellformed(data); err != nil {
		return err
	}
	return unmarshal(integers(data), v)
}

// UnmarshalExact is Unmarshal for types that read numbers as they are written: an integral
// float isn't taken for an integer, and an UnmarshalCBOR may keep what it is given.
func UnmarshalExact(data []byte, v any) error {
	if err := Wellformed(data); err != nil {
		return err
	}
	return unmarshal(data, v)
}

// unmarshal decodes what Wellformed has accepted.
func unmarshal(data []byte, v any) error {
	mode := plainDecoding
	if v != nil && planOf(reflect.TypeOf(v)).text {
		mode = textDecoding
	}
	if err := mode.Unmarshal(data, v); err != nil {
		return fmt.Errorf("cbor: %w", bare{err})
	}
	return nil
}

// Wellformed returns errMalformed unless data is exactly one value, and its bigints have at
// most maxBigint bytes each. It doesn't look at the meaning of other tags, nor for members
// of one name.
func Wellformed(data []byte) error {
	if err := plainDecoding.Wellformed(data); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, bare{err})
	}
	if size := largestBigint(data); size > maxBigint {
		return fmt.Errorf("%w: a bigint of %d bytes, limit %d", errMalformed, size, maxBigint)
	}
	return nil
}

// largestBigint returns the length of the largest bigint in well-formed data; 0 if data is
// too short to hold one beyond the limit.
func largestBigint(data []byte) int {
	if len(data) <= maxBigint {
		return 0
	}
	largest, tagged := 0, false
	for d := (decoder{data}); len(d.src) > 0; {
		h := d.next()
		size := 0
		if h.major == majorBytes || h.major == majorText {
			size = d.skip(h)
		}
		if tagged && h.major == majorBytes {
			largest = max(largest, size)
		}
		tagged = h.major == majorTag && (h.arg == tagBig || h.arg == tagNegBig)
	}
	return largest
}
