package traces

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// A Type is that of a Value.
type Type uint8

// The types there are. TypeBig is an integer beyond 64 bits; TypeTime a JavaScript Date,
// to the millisecond when JavaScript wrote it.
const (
	TypeNull Type = iota
	TypeBool
	TypeInt
	TypeFloat
	TypeString
	TypeBytes
	TypeTime
	TypeBig
	TypeArray
	TypeMap
	typeAny // any value of Go, as it will be stored
)

// A Value is the value of an attribute. It doesn't change, and the zero Value is null.
// How it is stored is in docs/traces.md; what is stored is read back as it was, NaN, the
// sign of zero and the difference between 3 and 3.0 included.
type Value struct {
	typ  Type
	num  uint64 // bool, int64, bits of a float64, Unix nanoseconds
	text string // string and bytes; the CBOR of a typeAny, "" if it has none
	list any    // []Value, []Attr, *big.Int, time.Time beyond num
}

// An Attr is a key and a value.
type Attr struct {
	Key   string
	Value Value
}

// Type returns the type of v.
func (v Value) Type() Type { return v.typ }

// BoolValue, IntValue and the rest return the Value of their argument. Slices are not
// copied, and must not change afterwards; bytes are copied.

// BoolValue returns the Value of b.
func BoolValue(b bool) Value {
	v := Value{typ: TypeBool}
	if b {
		v.num = 1
	}
	return v
}

// IntValue returns the Value of n.
func IntValue(n int64) Value { return Value{typ: TypeInt, num: uint64(n)} }

// FloatValue returns the Value of f.
func FloatValue(f float64) Value { return Value{typ: TypeFloat, num: math.Float64bits(f)} }

// StringValue returns the Value of s. What of it is not UTF-8 is replaced when it is
// stored.
func StringValue(s string) Value { return Value{typ: TypeString, text: s} }

// BytesValue returns the Value of b.
func BytesValue(b []byte) Value { return Value{typ: TypeBytes, text: string(b)} }

// TimeValue returns the Value of t, which is stored to the microsecond.
func TimeValue(t time.Time) Value { return Value{typ: TypeTime, list: t} }

// BigValue returns the Value of n, a TypeInt if it has at most 64 bits.
func BigValue(n *big.Int) Value {
	if n == nil {
		return Value{}
	}
	if n.IsInt64() {
		return IntValue(n.Int64())
	}
	return Value{typ: TypeBig, list: n}
}

// ArrayValue returns the Value of a list of values of any types.
func ArrayValue(list ...Value) Value {
	if list == nil {
		list = []Value{}
	}
	return Value{typ: TypeArray, list: list}
}

// MapValue returns the Value of an object with the members in this order.
func MapValue(members ...Attr) Value {
	if members == nil {
		members = []Attr{}
	}
	return Value{typ: TypeMap, list: members}
}

// AnyValue returns the Value of anything: of the types above and of slices and maps of
// them directly, of others as package internal/cbor would store them. It is the value as x
// is now, whatever becomes of x. What can't be stored is dropped, and counted, when it is
// recorded: what holds itself, what is nested or has more elements than a record could
// hold, and what panics when it is asked for its text or bytes.
func AnyValue(x any) (v Value) {
	m := anyMaker{left: maxNodes}
	defer func() {
		// Methods of the program's types are called. To be observed is no reason to die.
		if p := recover(); p != nil || m.bad {
			v = Value{typ: typeAny}
		}
	}()
	return m.make(x, 0)
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

// Bytes returns an attribute that is bytes, which it copies.
func Bytes(key string, b []byte) Attr { return Attr{key, BytesValue(b)} }

// Time returns an attribute that is a time.
func Time(key string, t time.Time) Attr { return Attr{key, TimeValue(t)} }

// Any returns an attribute of AnyValue(x).
func Any(key string, x any) Attr { return Attr{key, AnyValue(x)} }

// AsBool returns the bool, false of any other type.
func (v Value) AsBool() bool { return v.typ == TypeBool && v.num != 0 }

// AsInt returns the integer, 0 of any other type.
func (v Value) AsInt() int64 {
	if v.typ != TypeInt {
		return 0
	}
	return int64(v.num)
}

// AsFloat returns the number, of a TypeInt too; 0 of any other type.
func (v Value) AsFloat() float64 {
	switch v.typ {
	case TypeFloat:
		return math.Float64frombits(v.num)
	case TypeInt:
		return float64(int64(v.num))
	}
	return 0
}

// AsString returns the text, "" of any other type; String prints any.
func (v Value) AsString() string {
	if v.typ != TypeString {
		return ""
	}
	return v.text
}

// AsBytes returns a copy of the bytes, nil of any other type.
func (v Value) AsBytes() []byte {
	if v.typ != TypeBytes {
		return nil
	}
	return []byte(v.text)
}

// AsTime returns the time, the zero time of any other type.
func (v Value) AsTime() time.Time {
	t, _ := v.list.(time.Time)
	return t
}

// AsBig returns the integer, of a TypeInt too; nil of any other type. It must not be
// changed.
func (v Value) AsBig() *big.Int {
	if v.typ == TypeInt {
		return big.NewInt(int64(v.num))
	}
	n, _ := v.list.(*big.Int)
	return n
}

// AsArray returns the elements, nil of any other type. They must not be changed.
func (v Value) AsArray() []Value {
	list, _ := v.list.([]Value)
	return list
}

// AsMap returns the members, nil of any other type. They must not be changed.
func (v Value) AsMap() []Attr {
	list, _ := v.list.([]Attr)
	return list
}

// String prints v for people: a text as it is, bytes in hex, arrays and maps as JSON has
// them but for that.
func (v Value) String() string {
	switch v.typ {
	case TypeNull:
		return "null"
	case TypeBool:
		return strconv.FormatBool(v.num != 0)
	case TypeInt:
		return strconv.FormatInt(int64(v.num), 10)
	case TypeFloat:
		return strconv.FormatFloat(v.AsFloat(), 'g', -1, 64)
	case TypeString:
		return v.text
	case TypeBytes:
		return fmt.Sprintf("%x", v.text)
	case TypeTime:
		return v.AsTime().UTC().Format(time.RFC3339Nano)
	case TypeBig:
		return v.AsBig().String()
	case TypeArray:
		parts := make([]string, len(v.AsArray()))
		for i, x := range v.AsArray() {
			parts[i] = x.quoted()
		}
		return "[" + strings.Join(parts, ",") + "]"
	case TypeMap:
		parts := make([]string, len(v.AsMap()))
		for i, a := range v.AsMap() {
			parts[i] = strconv.Quote(a.Key) + ":" + a.Value.quoted()
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	if v.text == "" {
		return "?"
	}
	stored := decodeValue([]byte(v.text))
	return stored.String()
}

// quoted is String for a value within another one.
func (v Value) quoted() string {
	if v.typ == TypeString || v.typ == TypeBytes || v.typ == TypeTime {
		return strconv.Quote(v.String())
	}
	return v.String()
}
