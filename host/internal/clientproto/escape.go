package clientproto

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// What the first element of an array of two says that the second is.
const (
	markBigint    = "$BigInt"
	markBytes     = "$Uint8Array"
	markBuffer    = "$ArrayBuffer"
	markUndefined = "$Undefined"
	markSet       = "$Set"
)

// maxDigits bounds a bigint in decimal digits. It has as many as the largest that package
// cbor writes, of 1024 bytes: to read a number takes time that grows faster than its length.
const maxDigits = 2467

// Unescape undoes in a value, in CBOR, what a client of version 4 does to it, whose CBOR in
// BARE has the arrays of FromJSON in place of bigints, bytes, undefined and Sets. Parsers do so on
// their own. A server needs it for the input of an actor that such a client sends apart.
//
// The result is value itself if there is nothing to undo, else memory of its own. An unknown
// mark, or a value that isn't well-formed, is ErrMalformed.
func Unescape(value []byte) ([]byte, error) {
	b, err := rewrite(value, unmark)
	if err != nil {
		return nil, malformed("value", err)
	}
	return b, nil
}

// Escape makes a value, in CBOR, one that a client of version 4 reads as it was: an array
// that looks like one of those of FromJSON gets one more "$". It leaves bigints, bytes,
// undefined and Sets as they are, since the client reads those of CBOR.
//
// The result is value itself if there is nothing to escape, else memory of its own. A value
// that isn't well-formed is ErrMalformed.
func Escape(value []byte) ([]byte, error) {
	b, err := rewrite(value, func(v any) (any, error) { return mark(v), nil })
	if err != nil {
		return nil, malformed("value", err)
	}
	return b, nil
}

// rewrite returns what change makes of a value. Without a "$" there is nothing to change.
func rewrite(value []byte, change func(any) (any, error)) ([]byte, error) {
	if bytes.IndexByte(value, '$') < 0 {
		return value, cbor.Wellformed(value)
	}
	v, err := cbor.Decode(value)
	if err != nil {
		return nil, err
	}
	if v, err = change(v); err != nil {
		return nil, err
	}
	return cbor.Marshal(v)
}

// looksMarked says whether a list is an array of two whose first element begins with "$".
func looksMarked(list []any) bool {
	if len(list) != 2 {
		return false
	}
	text, ok := list[0].(string)
	return ok && strings.HasPrefix(text, "$")
}

// mark escapes arrays in a decoded value, which it changes. It goes into arrays and objects
// alone, as unmark does.
func mark(v any) any {
	switch v := v.(type) {
	case []any:
		marked := looksMarked(v)
		for i := range v {
			v[i] = mark(v[i])
		}
		if marked {
			v[0] = "$" + v[0].(string)
		}
	case cbor.Object:
		for i := range v {
			v[i].Value = mark(v[i].Value)
		}
	}
	return v
}

// unmark returns what a decoded value, which it changes, is without marks. A number of
// JSON isn't a bigint, however large: it is the nearest float, as in JavaScript.
func unmark(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case int64:
		if v > math.MaxUint32 || v < -1<<32 {
			return float64(v), nil
		}
	case uint64:
		return float64(v), nil
	case []any:
		for i := range v {
			if v[i], err = unmark(v[i]); err != nil {
				return nil, err
			}
		}
		if looksMarked(v) {
			return unmarkPair(v)
		}
	case cbor.Object:
		for i := range v {
			if v[i].Value, err = unmark(v[i].Value); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// unmarkPair returns what an array of two is whose first element begins with "$", and whose
// second has no marks any more.
func unmarkPair(pair []any) (any, error) {
	name := pair[0].(string)
	if strings.HasPrefix(name, "$$") {
		pair[0] = name[1:]
		return pair, nil
	}
	switch of := pair[1].(type) {
	case string:
		switch name {
		case markBigint:
			return bigint(of)
		case markBytes:
			b, err := fromBase64(of)
			return cbor.Uint8Array(b), err
		case markBuffer:
			return fromBase64(of)
		}
	case int64:
		if name == markUndefined && of == 0 {
			return cbor.Undefined{}, nil
		}
	case []any:
		if name == markSet {
			return cbor.Set(of), nil
		}
	}
	return nil, fmt.Errorf("an array with the mark %.32q, and a value that the mark doesn't go with", name)
}

func bigint(digits string) (*big.Int, error) {
	if len(strings.TrimPrefix(digits, "-")) > maxDigits {
		return nil, fmt.Errorf("a bigint of %d digits, limit %d", len(digits), maxDigits)
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok || digits[0] == '+' {
		return nil, fmt.Errorf("%.32q is no bigint", digits)
	}
	return n, nil
}

func fromBase64(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("bytes that aren't base64")
	}
	return b, nil
}
