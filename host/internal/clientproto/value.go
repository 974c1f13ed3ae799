package clientproto

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// undefined and null are values in CBOR.
const (
	undefined = 0xf7
	null      = 0xf6
)

// FromJSON returns the value in text, which is JSON, as CBOR in memory of its own. JSON
// lacks some values of JavaScript. A client writes them as an array of two, of which the first
// names what the second is:
//
//	["$BigInt","123"]        a bigint
//	["$Uint8Array","AQID"]   bytes, in base64
//	["$ArrayBuffer","AQID"]  bytes too
//	["$Undefined",0]         undefined
//	["$Set",[1,2]]           a Set
//
// An array of two whose first element is a text that begins with "$" gets one more "$" there,
// so that it isn't taken for one of these: ["$$x",1] is the array ["$x",1]. Any other such array
// is ErrMalformed, as is everything that isn't one value in JSON.
func FromJSON(text []byte) ([]byte, error) {
	b, err := fromJSON(text)
	if err != nil {
		return nil, malformed("value", err)
	}
	return b, nil
}

func fromJSON(text []byte) ([]byte, error) {
	v, err := cbor.FromJSON(text)
	if err != nil {
		return nil, err
	}
	if v, err = unmark(v); err != nil {
		return nil, err
	}
	return cbor.Marshal(v)
}

// AppendJSON appends a value in CBOR as JSON, as JavaScript's JSON.stringify writes it. nil is
// undefined. Bigints and bytes, and arrays that look like these, are written as FromJSON reads
// them. What a client reads nothing nearer for is written as follows. Undefined is null, but a
// member of an object that is undefined is left out. Numbers that are none are null. A Date is a
// text, a Set an array, a Map an array of pairs. What stands under another tag is itself.
//
// A value that isn't well-formed is ErrMalformed; then dst is returned as it was.
func AppendJSON(dst, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return append(dst, "null"...), nil
	}
	v, err := cbor.Decode(value)
	if err != nil {
		return dst, malformed("value", err)
	}
	return appendJSON(dst, v), nil
}

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil, cbor.Undefined:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case *big.Int:
		dst = append(append(dst, `["`...), markBigint...)
		return append(v.Append(append(dst, `","`...), 10), `"]`...)
	case string:
		return appendText(dst, v)
	case []byte:
		return appendBytes(dst, v)
	case cbor.Uint8Array:
		return appendBytes(dst, v)
	case time.Time:
		return append(v.UTC().AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z"), '"')
	case cbor.Date:
		return appendJSON(dst, v.Time)
	case cbor.Tag:
		return appendJSON(dst, v.Value)
	case []any:
		return appendList(dst, v)
	case cbor.Set:
		return appendList(dst, v)
	case cbor.Map:
		pairs := make([]any, len(v))
		for i, p := range v {
			pairs[i] = []any{p.Key, p.Value}
		}
		return appendList(dst, pairs)
	case cbor.Object:
		return appendObject(dst, v)
	}
	panic(fmt.Sprintf("clientproto: package cbor has decoded a %T", v))
}

func appendList(dst []byte, list []any) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if text, ok := v.(string); ok && i == 0 && looksMarked(list) {
			v = "$" + text
		}
		dst = appendJSON(dst, v)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, o cbor.Object) []byte {
	dst = append(dst, '{')
	first := true
	for _, m := range o {
		if (m.Value == cbor.Undefined{}) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendJSON(append(appendText(dst, m.Name), ':'), m.Value)
	}
	return append(dst, '}')
}

// appendFloat appends a number as JavaScript writes it: the shortest digits that are read as
// the same number, with an exponent for the very large and the very small.
func appendFloat(dst []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0') // also −0
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of exponent, JavaScript one.
	if n := len(dst); n-start >= 4 && dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	dst = append(append(dst, `["`...), markBytes...)
	dst = base64.StdEncoding.AppendEncode(append(dst, `","`...), b)
	return append(dst, `"]`...)
}

// appendText appends a text in quotes. Unlike encoding/json it escapes only what JSON wants
// escaped, as JavaScript does. Bytes that aren't UTF-8 become U+FFFD.
func appendText(dst []byte, s string) []byte {
	const short = "btn\x00fr" // for the bytes from 8 to 13
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	dst = append(dst, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\v':
			dst = append(dst, '\\', short[c-'\b'])
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[done:]...), '"')
}
