package cbor

import (
	"cmp"
	"encoding/base64"
	"reflect"
	"strings"
)

// FromBase64 is for values that came as JSON, which has no bytes. It returns data with bytes
// in the place of each text in base64 (RFC 4648, section 4, with padding) that t has a []byte,
// an array of bytes, or a type with an UnmarshalBinary for, and whether that changes anything.
// data is not kept.
func FromBase64(data []byte, t reflect.Type) (_ []byte, changed bool) {
	v, err := Decode(data)
	if err != nil {
		return data, false
	}
	if v, changed = (base64Reader{planOf(t).text}).bytesOf(v, t); !changed {
		return data, false
	}
	if out, err := Marshal(v); err == nil {
		return out, true
	}
	return data, false
}

// A base64Reader makes bytes of texts.
type base64Reader struct {
	text bool // what has an UnmarshalText is read by it
}

// form says how values of a type are read: from bytes, and by a method of theirs.
func (r base64Reader) form(t reflect.Type) (bytes, method bool) {
	to := reflect.PointerTo(t)
	switch {
	case t == typeTime || t == typeBigInt || to.Implements(methodCBOR.read):
		return false, true
	case to.Implements(methodBinary.read):
		return true, true
	case r.text && to.Implements(methodText.read):
		return false, true
	}
	k := t.Kind()
	return (k == reflect.Slice || k == reflect.Array) && t.Elem().Kind() == reflect.Uint8, false
}

// bytesOf is FromBase64 of a value as Decode returns it, which it may change.
func (r base64Reader) bytesOf(v any, t reflect.Type) (_ any, changed bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	bytes, method := r.form(t)
	if text, is := v.(string); is && bytes {
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return v, false
		}
		return b, true
	}
	if method {
		return v, false
	}
	switch v := v.(type) {
	case []any:
		if k := t.Kind(); k != reflect.Slice && k != reflect.Array {
			return v, false
		}
		for i := range v {
			var is bool
			v[i], is = r.bytesOf(v[i], t.Elem())
			changed = changed || is
		}
	case Object:
		of := memberTypes(t)
		for i, m := range v {
			if of := of(m.Name); of != nil {
				var is bool
				v[i].Value, is = r.bytesOf(m.Value, of)
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
