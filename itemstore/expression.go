package itemstore

import (
	"reflect"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// structObject is a struct as an expression sees it: an object with the exported fields by their names in Go.
type structObject struct{ v reflect.Value }

// Field returns a field. It implements filter.Object.
func (o structObject) Field(name string) (any, bool) {
	v, ok := fieldOf(o.v, name)
	return expressionValue(v), ok
}

// fieldOf returns the value of an exported field of a struct, and false if it has none of that name.
func fieldOf(v reflect.Value, name string) (any, bool) {
	f, ok := v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return nil, false
	}
	v, err := v.FieldByIndexErr(f.Index)
	if err != nil { // of an embedded struct that isn't there
		return nil, false
	}
	return v.Interface(), true
}

// Names returns the names of the fields. It implements filter.Object.
func (o structObject) Names() (names []string) {
	for i := range o.v.NumField() {
		if f := o.v.Type().Field(i); f.IsExported() {
			names = append(names, f.Name)
		}
	}
	return names
}

// expressionValue returns a value of Go as package filter takes it.
func expressionValue(v any) any {
	switch v := v.(type) {
	case nil, bool, string, []byte, time.Time, time.Duration, int64, uint64, float64, []any, map[string]any, cbor.Object:
		return v
	case Version:
		return v.String()
	case Path:
		return string(v)
	}
	rv := reflect.ValueOf(v)
	if el, kind := elementOf(v); kind != idNone {
		if kind == idUUID {
			return el.(interface{ String() string }).String()
		}
		return el
	}
	switch rv.Kind() {
	case reflect.Bool:
		return rv.Bool()
	case reflect.Float32, reflect.Float64:
		return rv.Float()
	case reflect.Pointer, reflect.Interface:
		if rv.IsNil() {
			return nil
		}
		return expressionValue(rv.Elem().Interface())
	case reflect.Struct:
		return structObject{rv}
	case reflect.Slice, reflect.Array:
		list := make([]any, rv.Len())
		for i := range list {
			list[i] = expressionValue(rv.Index(i).Interface())
		}
		return list
	case reflect.Map:
		if rv.Type().Key().Kind() != reflect.String {
			break
		}
		m := make(map[string]any, rv.Len())
		for it := rv.MapRange(); it.Next(); {
			m[it.Key().String()] = expressionValue(it.Value().Interface())
		}
		return m
	}
	return v
}
