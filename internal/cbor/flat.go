package cbor

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Most structs are flat: their fields are texts, bytes and numbers. What Marshal makes of one is read here, in
// half of the time that the library takes. Whatever isn't just so is left to the library, which decides what it means.

// A flatStruct is what is known of a flat struct.
type flatStruct []flatField

// A flatField is a field that is encoded.
type flatField struct {
	name  string
	index int
	kind  reflect.Kind // reflect.Slice is one of bytes
}

var flats sync.Map // of reflect.Type to flatStruct; nil for a type that isn't flat

// flatStructOf returns what is known of t, nil if it isn't a flat struct.
func flatStructOf(t reflect.Type) flatStruct {
	if f, ok := flats.Load(t); ok {
		return f.(flatStruct)
	}
	f := newFlatStruct(t)
	flats.Store(t, f)
	return f
}

func newFlatStruct(t reflect.Type) (fs flatStruct) {
	if t.Kind() != reflect.Struct || reads(t) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := fieldTag(f)
		switch {
		case f.Anonymous, f.Name == "_" && tag != "":
			return nil
		case !f.IsExported(), tag == "-":
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		kind, known := flatKind(f.Type), slices.ContainsFunc(fs, func(o flatField) bool { return strings.EqualFold(o.name, name) })
		if kind == reflect.Invalid || known || options != "" && options != "omitzero" && options != "omitempty" {
			return nil
		}
		fs = append(fs, flatField{name, i, kind})
	}
	if len(fs) > 64 {
		return nil
	}
	return fs
}

// reads reports whether values of t are read by a method of theirs.
func reads(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(methodCBOR.read) || p.Implements(methodBinary.read) || p.Implements(methodText.read)
}

// flatKind returns the kind of a field's type, reflect.Invalid if the library has to read it.
func flatKind(t reflect.Type) reflect.Kind {
	switch k := t.Kind(); {
	case reads(t):
	case k == reflect.Slice && t.Elem() == reflect.TypeFor[byte](),
		k == reflect.String, k == reflect.Bool, k == reflect.Float64, k >= reflect.Int && k <= reflect.Uint64:
		return k
	}
	return reflect.Invalid
}

// decode sets the fields of v to what well-formed data has, and reports whether that was all that there is to do.
func (fs flatStruct) decode(data []byte, v reflect.Value) bool {
	d := decoder{data}
	object := d.next()
	if object.major != majorMap || object.info == infoIndefinite {
		return false
	}
	seen, at := uint64(0), 0
	for range object.arg {
		key := d.next()
		if key.major != majorText || key.info == infoIndefinite {
			return false
		}
		at = fs.find(d.src[:key.arg], at)
		if at < 0 || seen&(1<<at) != 0 {
			return false
		}
		seen |= 1 << at
		d.src = d.src[key.arg:]
		if !fs[at].decode(&d, v.Field(fs[at].index)) {
			return false
		}
		at++
	}
	return true
}

// find returns the place of the field of a name, −1 without one. It looks from a place on: fields are in their order.
func (fs flatStruct) find(name []byte, from int) int {
	for i := range fs {
		if at := (from + i) % len(fs); fs[at].name == string(name) {
			return at
		}
	}
	return -1
}

// decode sets v to what d begins with, and reports whether it did.
func (f flatField) decode(d *decoder, v reflect.Value) bool {
	h := d.next()
	switch {
	case h.info == infoIndefinite:
		return false
	case f.kind == reflect.String || f.kind == reflect.Slice:
		return f.text(d, h, v)
	case f.kind == reflect.Bool:
		if h.major != majorSimple || h.info != 20 && h.info != 21 {
			return false
		}
		v.SetBool(h.info == 21)
		return true
	}
	return f.number(h, v)
}

func (f flatField) text(d *decoder, h head, v reflect.Value) bool {
	major := byte(majorBytes)
	if f.kind == reflect.String {
		major = majorText
	}
	if h.major != major {
		return false
	}
	b := d.src[:h.arg]
	d.src = d.src[h.arg:]
	if f.kind == reflect.Slice {
		v.SetBytes(append([]byte{}, b...))
		return true
	}
	if !utf8.Valid(b) {
		return false
	}
	v.SetString(string(b))
	return true
}

// number sets v to a number. It is a float on the wire where JavaScript has one, see integers.
func (f flatField) number(h head, v reflect.Value) bool {
	x, float := h.float()
	switch {
	case float && f.kind == reflect.Float64:
		v.SetFloat(x)
		return true
	case float:
		if x != math.Trunc(x) || math.Abs(x) > maxExact || x == 0 {
			return false
		}
		if h.major, h.arg = majorUint, uint64(x); x < 0 {
			h.major, h.arg = majorNegative, uint64(-x)-1
		}
	case h.major != majorUint && h.major != majorNegative:
		return false
	}
	n := int64(h.arg)
	if h.major == majorNegative {
		n = -1 - n
	}
	switch {
	case f.kind == reflect.Float64:
		if h.arg >= maxExact {
			return false
		}
		v.SetFloat(float64(n))
	case f.kind >= reflect.Uint:
		if h.major == majorNegative || v.OverflowUint(h.arg) {
			return false
		}
		v.SetUint(h.arg)
	default:
		if h.arg > math.MaxInt64 || v.OverflowInt(n) {
			return false
		}
		v.SetInt(n)
	}
	return true
}
