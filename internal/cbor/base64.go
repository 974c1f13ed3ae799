package cbor

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// FromBase64 is for values that came as JSON, which has no bytes. It returns data with bytes
// in the place of each text in base64 (RFC 4648, section 4, with padding) that t has a []byte
// or an array of bytes for, and whether that changes anything. data is not kept.
func FromBase64(data []byte, t reflect.Type) (_ []byte, changed bool) {
	v, err := Decode(data)
	if err != nil {
		return data, false
	}
	if v, changed = bytesOf(v, t); !changed {
		return data, false
	}
	if out, err := Marshal(v); err == nil {
		return out, true
	}
	return data, false
}

var readsItself = []reflect.Type{
	reflect.TypeFor[cbor.Unmarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// bytesOf is FromBase64 of a value as Decode returns it, which it may change.
func bytesOf(v any, t reflect.Type) (_ any, changed bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, method := range readsItself {
		if reflect.PointerTo(t).Implements(method) {
			return v, false
		}
	}
	switch v := v.(type) {
	case string:
		if k := t.Kind(); k != reflect.Slice && k != reflect.Array || t.Elem().Kind() != reflect.Uint8 {
			return v, false
		}
		b, err := base64.StdEncoding.Strict().DecodeString(v)
		if err != nil {
			return v, false
		}
		return b, true
	case []any:
		if k := t.Kind(); k != reflect.Slice && k != reflect.Array {
			return v, false
		}
		for i := range v {
			var is bool
			v[i], is = bytesOf(v[i], t.Elem())
			changed = changed || is
		}
	case Object:
		of := memberTypes(t)
		for i, m := range v {
			if of := of(m.Name); of != nil {
				var is bool
				v[i].Value, is = bytesOf(m.Value, of)
				changed = changed || is
			}
		}
	}
	return v, changed
}

// memberTypes returns the types of an object's members by their names, nil for one that t
// doesn't have.
func memberTypes(t reflect.Type) func(name string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return func(string) reflect.Type { return t.Elem() }
	case reflect.Struct:
		fields := reflect.VisibleFields(t)
		return func(name string) reflect.Type {
			var near reflect.Type
			for _, f := range fields {
				switch own := fieldName(f); {
				case !f.IsExported() || f.Anonymous && own == f.Name:
				case own == name:
					return f.Type
				case near == nil && strings.EqualFold(own, name):
					near = f.Type
				}
			}
			return near
		}
	}
	return func(string) reflect.Type { return nil }
}

// fieldName returns the name that a field has in CBOR.
func fieldName(f reflect.StructField) string {
	tag, ok := f.Tag.Lookup("cbor")
	if !ok {
		tag = f.Tag.Get("json")
	}
	name, _, _ := strings.Cut(tag, ",")
	return cmp.Or(name, f.Name)
}
