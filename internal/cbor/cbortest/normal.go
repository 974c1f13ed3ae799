package cbortest

import (
	"encoding"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Equal reports whether b is what is read of an a that was stored: reflect.DeepEqual of what
// is left of both when the differences of the table in docs/state.md are taken away.
func Equal(a, b any) bool {
	return reflect.DeepEqual(normal(reflect.ValueOf(a)), normal(reflect.ValueOf(b)))
}

type (
	number  string
	instant string
	bytes   string
)

// normal returns a value without what isn't stored. Types are not compared: outside of an any
// they are the same.
func normal(v reflect.Value) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	if x, ok := special(v); ok {
		return x
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return number(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return number(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			return number(strconv.FormatInt(int64(f), 10))
		}
		return number(strconv.FormatFloat(v.Float(), 'x', -1, 64))
	case reflect.Slice, reflect.Array:
		return list(v)
	case reflect.Map:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			out[fmt.Sprintf("%#v", normal(it.Key()))] = normal(it.Value())
		}
		return out
	case reflect.Struct:
		return object(v)
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	}
	return fmt.Sprint(v)
}

// special returns what counts of types that have a form of their own.
func special(v reflect.Value) (any, bool) {
	if !v.CanInterface() {
		return nil, false
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	switch x := p.Interface().(type) {
	case *time.Time:
		if x.IsZero() {
			return nil, true
		}
		return instant(x.Format(time.RFC3339Nano)), true
	case *big.Int:
		return number(x.String()), true
	case *big.Rat:
		return x.RatString(), true
	case *Money:
		return x.Int.String(), true
	case encoding.BinaryMarshaler:
		b, err := x.MarshalBinary()
		if err != nil {
			return err, true
		}
		return bytes(b), true
	}
	return nil, false
}

func list(v reflect.Value) any {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, v.Len())
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		return bytes(b)
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = normal(v.Index(i))
	}
	return out
}

// object returns the members of a struct, as a map has them.
func object(v reflect.Value) any {
	out := map[string]any{}
	elements := []any{}
	array := false
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("cbor")
		if tag == "" {
			tag = f.Tag.Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		array = array || options == "toarray"
		if name == "-" || !f.IsExported() && !f.Anonymous || strings.Contains(options, "omitempty") && empty(v.Field(i)) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		x := normal(v.Field(i))
		if in, ok := x.(map[string]any); ok && f.Anonymous {
			for name, x := range in {
				out[name] = x
			}
		} else if !f.Anonymous {
			out[fmt.Sprintf("%#v", name)] = x
			elements = append(elements, x)
		}
	}
	if array {
		return elements
	}
	return out
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		switch x := normal(v).(type) {
		case map[string]any:
			return len(x) == 0
		case bytes:
			return x == ""
		}
		return false
	}
	return v.IsZero()
}
