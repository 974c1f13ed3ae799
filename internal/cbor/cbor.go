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
//   - NaN and infinity are refused: a stored value must mean something to every reader.
//
// Go values are encoded by github.com/fxamacker/cbor, with its struct tags (`cbor`,
// or `json` where that is missing), and what it writes is rewritten into the profile.
package cbor

// Files, from the top down:
//
//	base64.go schema.go cbor.go json.go rewrite.go value.go check.go keep.go plan.go library.go covered.go errors.go
//	head.go

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

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

// MarshalList is Marshal of an array whose elements are read one by one, each as a value of
// its own type, and not as a list of any.
func MarshalList(list []any) ([]byte, error) {
	out := AppendHead(nil, majorArray, uint64(len(list)))
	for i, v := range list {
		b, err := encode(v, maxValue-1)
		if bad := (*ValueError)(nil); errors.As(err, &bad) {
			return nil, bad.in(i)
		} else if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// Typed returns v as Marshal takes it. If T is an interface that is a pointer to it, unless it
// makes no difference: what an interface with methods holds can't be read back, and what an
// any holds only in part. Neither shows by itself in what it is.
func Typed[T any](v T) any {
	if reflect.TypeFor[T]().Kind() != reflect.Interface {
		return v
	}
	if _, ok := any(&v).(*any); ok {
		switch held := any(v).(type) {
		case []any, map[string]any, cbor.Marshaler:
			return held
		default:
			if scalar(held) {
				return held
			}
		}
	}
	return &v
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
