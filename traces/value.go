package traces

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// A valueType is that of a Value.
type valueType uint8

// The types there are. typeBig is an integer beyond 64 bits; typeTime a JavaScript Date,
// to the millisecond when JavaScript wrote it.
const (
	typeNull valueType = iota
	typeBool
	typeInt
	typeFloat
	typeString
	typeBytes
	typeTime
	typeBig
	typeArray
	typeMap
)

// A Value is the value of an attribute. It doesn't change, and the zero Value is null.
// How it is stored is in docs/traces.md; what is stored is read back as it was, NaN, the
// sign of zero and the difference between 3 and 3.0 included.
type Value struct {
	typ  valueType
	num  uint64 // bool, int64, bits of a float64, Unix nanoseconds
	text string // string and bytes
	list any    // []Value, []Attr, *big.Int, time.Time beyond num
}

// An Attr is a key and a value.
type Attr struct {
	Key   string
	Value Value
}

// BoolValue, IntValue and the rest return the Value of their argument. Slices are not
// copied, and must not change afterwards; bytes are copied.

// BoolValue returns the Value of b.
func BoolValue(b bool) Value {
	v := Value{typ: typeBool}
	if b {
		v.num = 1
	}
	return v
}

// IntValue returns the Value of n.
func IntValue(n int64) Value { return Value{typ: typeInt, num: uint64(n)} }

// FloatValue returns the Value of f.
func FloatValue(f float64) Value { return Value{typ: typeFloat, num: math.Float64bits(f)} }

// StringValue returns the Value of s. What of it is not UTF-8 is replaced when it is
// stored.
func StringValue(s string) Value { return Value{typ: typeString, text: s} }

// BytesValue returns the Value of b.
func BytesValue(b []byte) Value { return Value{typ: typeBytes, text: string(b)} }

// TimeValue returns the Value of t, which is stored to the nanosecond, with its offset from UTC.
func TimeValue(t time.Time) Value { return Value{typ: typeTime, list: t} }

// BigValue returns the Value of n, an integer of any size; of nil it is null. n must not change afterwards.
func BigValue(n *big.Int) Value {
	if n == nil {
		return Value{}
	}
	if n.IsInt64() {
		return IntValue(n.Int64())
	}
	return Value{typ: typeBig, list: n}
}

// ArrayValue returns the Value of a list of values of any types.
func ArrayValue(list ...Value) Value {
	if list == nil {
		list = []Value{}
	}
	return Value{typ: typeArray, list: list}
}

// MapValue returns the Value of an object with the members in this order.
func MapValue(members ...Attr) Value {
	if members == nil {
		members = []Attr{}
	}
	return Value{typ: typeMap, list: members}
}

// Bool, Int and the rest return an attribute.

// Bool returns an attribute that is a bool.
func Bool(key string, b bool) Attr { return Attr{key, BoolValue(b)} }

// Int returns an attribute that is an integer.
func Int(key string, n int64) Attr { return Attr{key, IntValue(n)} }

// Float returns an attribute that is a number.
func Float(key string, f float64) Attr { return Attr{key, FloatValue(f)} }

// String returns an attribute that is a text.
func String(key, s string) Attr { return Attr{key, StringValue(s)} }

// Any returns v as a value of Go: nil, a bool, an int64, a float64, a string, []byte, a time.Time,
// a *big.Int for an integer beyond 64 bits, []Value, or []Attr for an object. Bytes are a
// copy; the integer and the lists must not be changed. A time is that of a JavaScript Date, to
// the millisecond, when JavaScript wrote it.
func (v Value) Any() any {
	switch v.typ {
	case typeNull:
		return nil
	case typeBool:
		return v.num != 0
	case typeInt:
		return v.asInt()
	case typeFloat:
		return v.asFloat()
	case typeString:
		return v.text
	case typeBytes:
		return []byte(v.text)
	}
	return v.list
}

// asInt returns the integer, 0 of any other type.
func (v Value) asInt() int64 {
	if v.typ != typeInt {
		return 0
	}
	return int64(v.num)
}

// asFloat returns the number, of a typeInt too; 0 of any other type.
func (v Value) asFloat() float64 {
	switch v.typ {
	case typeFloat:
		return math.Float64frombits(v.num)
	case typeInt:
		return float64(int64(v.num))
	}
	return 0
}

// asTime returns the time, the zero time of any other type.
func (v Value) asTime() time.Time {
	t, _ := v.list.(time.Time)
	return t
}

// asArray returns the elements, nil of any other type.
func (v Value) asArray() []Value {
	list, _ := v.list.([]Value)
	return list
}

// asMap returns the members, nil of any other type.
func (v Value) asMap() []Attr {
	list, _ := v.list.([]Attr)
	return list
}

// String prints v for people: a text as it is, bytes in hex, arrays and maps as JSON has
// them but for that.
func (v Value) String() string {
	switch v.typ {
	case typeNull:
		return "null"
	case typeBool:
		return strconv.FormatBool(v.num != 0)
	case typeInt:
		return strconv.FormatInt(int64(v.num), 10)
	case typeFloat:
		return strconv.FormatFloat(v.asFloat(), 'g', -1, 64)
	case typeString:
		return v.text
	case typeBytes:
		return fmt.Sprintf("%x", v.text)
	case typeTime:
		return v.asTime().UTC().Format(time.RFC3339Nano)
	case typeBig:
		return v.list.(*big.Int).String()
	case typeArray:
		parts := make([]string, len(v.asArray()))
		for i, x := range v.asArray() {
			parts[i] = x.quoted()
		}
		return "[" + strings.Join(parts, ",") + "]"
	case typeMap:
		parts := make([]string, len(v.asMap()))
		for i, a := range v.asMap() {
			parts[i] = strconv.Quote(a.Key) + ":" + a.Value.quoted()
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "?"
}

// quoted is String for a value within another one.
func (v Value) quoted() string {
	if v.typ == typeString || v.typ == typeBytes || v.typ == typeTime {
		return strconv.Quote(v.String())
	}
	return v.String()
}
