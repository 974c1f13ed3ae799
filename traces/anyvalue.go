package traces

import (
	"encoding"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// maxDepth bounds how deep values are nested: what is deeper, or holds itself, can't be
// stored.
const maxDepth = 32

// maxNodes bounds of how many values one is made: each takes a byte at least, and all of a
// record a quarter of a chunk.
const maxNodes = maxChunk / 4

// An anyMaker makes the Value of anything. It goes nowhere that takes for ever: a value
// that holds itself twice has no end even if its depth has.
type anyMaker struct {
	left int  // how many values it may still be made of
	bad  bool // it can't be stored
}

// make is AnyValue, apart from what a program's own methods do wrong.
func (m *anyMaker) make(x any, depth int) Value {
	if v, ok := simpleValue(x); ok {
		return v
	}
	if !m.enter(depth) {
		return Value{typ: typeAny}
	}
	switch x := x.(type) {
	case []string:
		return listValue(x, StringValue)
	case []bool:
		return listValue(x, BoolValue)
	case []int:
		return listValue(x, func(n int) Value { return IntValue(int64(n)) })
	case []int64:
		return listValue(x, IntValue)
	case []float64:
		return listValue(x, FloatValue)
	case []any:
		return listValue(x, func(x any) Value { return m.element(x, depth) })
	case map[string]string:
		return mapValue(x, StringValue)
	case map[string]any:
		return mapValue(x, func(x any) Value { return m.element(x, depth) })
	}
	return m.encode(x, depth)
}

// enter counts a value, and reports whether it may be looked into.
func (m *anyMaker) enter(depth int) bool {
	m.left--
	m.bad = m.bad || depth > maxDepth || m.left < 0
	return !m.bad
}

func (m *anyMaker) element(x any, depth int) Value {
	if !m.enter(depth) {
		return Value{typ: typeAny}
	}
	return m.make(x, depth+1)
}

// encode stores what has no Value of its own at once: what x holds may change before it is
// recorded, and it may be recorded several times.
func (m *anyMaker) encode(x any, depth int) Value {
	if m.left++; !m.walk(reflect.ValueOf(x), depth) {
		return Value{typ: typeAny}
	}
	b, err := cbor.Marshal(x)
	if err != nil || len(b) == 1 && b[0] == headUndef {
		m.bad = true
		return Value{typ: typeAny}
	}
	d := valueDecoder{b: b} // what MarshalCBOR returns may be no value of the profile
	if d.item(0); d.bad {
		m.bad = true
		return Value{typ: typeAny}
	}
	return Value{typ: typeAny, text: string(b)}
}

// walk reports whether v has an end, which the encoder takes for granted.
func (m *anyMaker) walk(v reflect.Value, depth int) bool {
	if !m.enter(depth) {
		return false
	}
	if !v.IsValid() || encodesItself(v.Type()) {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || m.walk(v.Elem(), depth+1)
	case reflect.Map:
		return m.walkMap(v, depth)
	case reflect.Slice, reflect.Array:
		if !holdsOthers(v.Type().Elem().Kind()) {
			return true // as long as it is: the encoder goes through it once
		}
		for i := range v.Len() {
			if !m.walk(v.Index(i), depth+1) {
				return false
			}
		}
	case reflect.Struct:
		return m.walkStruct(v, depth)
	}
	return true
}

func (m *anyMaker) walkMap(v reflect.Value, depth int) bool {
	for it := v.MapRange(); it.Next(); {
		if !m.walk(it.Key(), depth+1) || !m.walk(it.Value(), depth+1) {
			return false
		}
	}
	return true
}

// walkStruct walks the fields that the encoder does: not what is left out on purpose, as
// a pointer back often is.
func (m *anyMaker) walkStruct(v reflect.Value, depth int) bool {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() && !f.Anonymous || f.Tag.Get("cbor") == "-" || f.Tag.Get("cbor") == "" && f.Tag.Get("json") == "-" {
			continue
		}
		if !m.walk(v.Field(i), depth+1) {
			return false
		}
	}
	return true
}

// holdsOthers reports whether values of the kind may hold others.
func holdsOthers(k reflect.Kind) bool {
	switch k {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
		return true
	}
	return false
}

// encodesItself reports whether the encoder asks values of the type what they are, and
// doesn't look into them.
func encodesItself(t reflect.Type) bool {
	for _, m := range [...]reflect.Type{
		reflect.TypeFor[interface{ MarshalCBOR() ([]byte, error) }](), reflect.TypeFor[encoding.BinaryMarshaler](),
	} {
		if t.Implements(m) || reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[big.Int]()
}

// simpleValue returns the Value of what is not made of others.
func simpleValue(x any) (v Value, ok bool) {
	switch x := x.(type) {
	case nil:
		return Value{}, true
	case Value:
		return x, true
	case bool:
		return BoolValue(x), true
	case string:
		return StringValue(x), true
	case []byte:
		return BytesValue(x), true
	case time.Time:
		return timeValue(x), true
	case *big.Int:
		if x == nil {
			return Value{}, true
		}
		return bigValue(new(big.Int).Set(x)), true
	case []Value:
		return ArrayValue(slices.Clone(x)...), true
	case []Attr:
		return MapValue(slices.Clone(x)...), true
	case error:
		return StringValue(x.Error()), true
	}
	return numberValue(x)
}

func numberValue(x any) (v Value, ok bool) {
	switch x := x.(type) {
	case int:
		return IntValue(int64(x)), true
	case int64:
		return IntValue(x), true
	case int32:
		return IntValue(int64(x)), true
	case int16:
		return IntValue(int64(x)), true
	case int8:
		return IntValue(int64(x)), true
	case uint:
		return uintValue(uint64(x)), true
	case uint64:
		return uintValue(x), true
	case uint32:
		return IntValue(int64(x)), true
	case uint16:
		return IntValue(int64(x)), true
	case uint8:
		return IntValue(int64(x)), true
	case float64:
		return FloatValue(x), true
	case float32:
		return FloatValue(float64(x)), true
	}
	return Value{}, false
}

func uintValue(n uint64) Value {
	if n > math.MaxInt64 {
		return bigValue(new(big.Int).SetUint64(n))
	}
	return IntValue(int64(n))
}

func listValue[T any](list []T, of func(T) Value) Value {
	out := make([]Value, len(list))
	for i, x := range list {
		out[i] = of(x)
	}
	return ArrayValue(out...)
}

// mapValue orders the members of a Go map, which has no order, by their names.
func mapValue[T any](m map[string]T, of func(T) Value) Value {
	out := make([]Attr, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Attr{key, of(m[key])})
	}
	return MapValue(out...)
}
