package traces

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"time"
)

// maxDepth bounds how deep values are nested: what is deeper, or holds itself, can't be
// stored.
const maxDepth = 32

// anyValue is AnyValue. What it doesn't know is left for the encoder.
func anyValue(x any, depth int) Value {
	if depth > maxDepth {
		return Value{typ: typeAny}
	}
	if v, ok := simpleValue(x); ok {
		return v
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
		return listValue(x, func(x any) Value { return anyValue(x, depth+1) })
	case map[string]string:
		return mapValue(x, StringValue)
	case map[string]any:
		return mapValue(x, func(x any) Value { return anyValue(x, depth+1) })
	}
	return Value{typ: typeAny, list: x}
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
		return TimeValue(x), true
	case *big.Int:
		if x == nil {
			return Value{}, true
		}
		return BigValue(new(big.Int).Set(x)), true
	case []Value:
		return ArrayValue(x...), true
	case []Attr:
		return MapValue(x...), true
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
		return BigValue(new(big.Int).SetUint64(n))
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
