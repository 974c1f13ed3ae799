package cbor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Values that JavaScript has and Go hasn't. Marshal takes them, Decode returns them;
// Object and Undefined can also be unmarshalled into.
type (
	// Undefined is JavaScript's undefined.
	Undefined struct{}

	// An Object is an object whose members have an order.
	Object []Member

	// A Map is a JavaScript Map, whose keys are any values.
	Map []pair

	// A Set is a JavaScript Set.
	Set []any

	// A Uint8Array is one of JavaScript; a []byte is a Buffer, or an ArrayBuffer.
	Uint8Array []byte

	// A Date is one of JavaScript: to the millisecond, and without a zone. A time.Time is
	// written in another way, which keeps both.
	Date struct{ time.Time }

	// A Tag is anything else that stands under a tag: typed arrays (69 to 87), and
	// Error and RegExp (27), as they are.
	Tag struct {
		Number uint64
		Value  any
	}
)

// A Member is a name and a value of an Object.
type Member struct {
	Name  string
	Value any
}

// A pair is a key and a value of a Map.
type pair struct{ Key, Value any }

// Get returns the value of the first member of that name, nil if the object has none.
func (o Object) Get(name string) any {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (Undefined) MarshalCBOR() ([]byte, error) { return []byte{headUndefined}, nil }

// UnmarshalCBOR takes any value: a caller that decodes into Undefined ignores it.
func (Undefined) UnmarshalCBOR([]byte) error { return nil }

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (o Object) MarshalCBOR() ([]byte, error) {
	b := AppendHead(nil, majorMap, uint64(len(o)))
	for _, m := range o {
		b = AppendHead(b, majorText, uint64(len(m.Name)))
		b = append(b, m.Name...)
		var err error
		if b, err = appendValue(b, m.Value); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (o *Object) UnmarshalCBOR(b []byte) error {
	v, err := Decode(Keep(b))
	if err != nil {
		return err
	}
	object, ok := v.(Object)
	if !ok {
		return fmt.Errorf("cbor: %T where an object is expected", v)
	}
	*o = object
	return nil
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (m Map) MarshalCBOR() ([]byte, error) {
	b := AppendHead(AppendHead(nil, majorTag, tagMap), majorMap, uint64(len(m)))
	for _, p := range m {
		for _, v := range []any{p.Key, p.Value} {
			var err error
			if b, err = appendValue(b, v); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (s Set) MarshalCBOR() ([]byte, error) {
	return appendValue(AppendHead(nil, majorTag, tagSet), append([]any{}, s...))
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (a Uint8Array) MarshalCBOR() ([]byte, error) {
	return appendValue(AppendHead(nil, majorTag, tagUint8s), []byte(a))
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (d Date) MarshalCBOR() ([]byte, error) { return dateEncoding.Marshal(d.Time) }

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (t Tag) MarshalCBOR() ([]byte, error) {
	return appendValue(AppendHead(nil, majorTag, t.Number), t.Value)
}

// appendValue appends v, not yet in the profile.
func appendValue(dst []byte, v any) ([]byte, error) {
	b, err := textEncoding.Marshal(v)
	return append(dst, b...), err
}

func (o Object) parts(c *checker) error {
	for _, m := range o {
		if err := c.member(step{name: []byte(m.Name)}, m.Value); err != nil {
			return err
		}
	}
	return nil
}

func (m Map) parts(c *checker) error {
	for _, p := range m {
		s := step{name: []byte(keyName(reflect.ValueOf(&p.Key).Elem()))}
		for _, v := range []any{p.Key, p.Value} {
			if err := c.member(s, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Set) parts(c *checker) error {
	for i, v := range s {
		if err := c.member(step{index: i}, v); err != nil {
			return err
		}
	}
	return nil
}

func (t Tag) parts(c *checker) error { return c.any(t.Value) }

// MarshalJSON writes an object with its members in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{m.Name, m.Value} {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			if j > 0 {
				b.WriteByte(':')
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON writes null: JSON has nothing nearer.
func (Undefined) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// Decode returns the one value that data holds, so that Marshal makes the same bytes
// of it: nil, bool, int64, float64, *big.Int (of integers of 8 bytes as well), string,
// []byte, time.Time, []any, and the types of this package. It accepts what other
// writers of CBOR produce too; then the bytes may come out differently. Errors are
// errMalformed.
func Decode(data []byte) (any, error) {
	if err := Wellformed(data); err != nil {
		return nil, err
	}
	d := decoder{data}
	return d.item()
}

func (d *decoder) item() (any, error) {
	whole := d.src
	switch h := d.next(); h.major {
	case majorUint, majorNegative:
		return integer(h), nil
	case majorBytes:
		return d.text(h), nil
	case majorText:
		return string(d.text(h)), nil
	case majorArray:
		list := []any{}
		err := d.each(h, func() error {
			v, err := d.item()
			list = append(list, v)
			return err
		})
		return list, err
	case majorMap:
		return d.object(h)
	case majorTag:
		return d.tagged(h.arg)
	default:
		if f, ok := h.float(); ok {
			return f, nil
		}
		return simple(whole[0])
	}
}

// integer returns an int64 or, of 8 bytes, a *big.Int.
func integer(h head) any {
	if h.info != infoFloat64 {
		if h.major == majorNegative {
			return -1 - int64(h.arg)
		}
		return int64(h.arg)
	}
	n := new(big.Int).SetUint64(h.arg)
	if h.major == majorNegative {
		n.Not(n)
	}
	return n
}

func simple(b byte) (any, error) {
	switch b {
	case 0xf4, 0xf5:
		return b == 0xf5, nil
	case 0xf6:
		return nil, nil
	case headUndefined:
		return Undefined{}, nil
	}
	return nil, fmt.Errorf("%w: the simple value %x", errMalformed, b)
}

// each calls fn for as many items as h announces.
func (d *decoder) each(h head, fn func() error) error {
	for i := uint64(0); h.info == infoIndefinite || i < h.arg; i++ {
		if h.info == infoIndefinite && d.src[0] == headBreak {
			d.src = d.src[1:]
			return nil
		}
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// pairs reads a map.
func (d *decoder) pairs(h head) (m Map, err error) {
	m = Map{}
	err = d.each(h, func() (err error) {
		var p pair
		if p.Key, err = d.item(); err != nil {
			return err
		}
		p.Value, err = d.item()
		m = append(m, p)
		return err
	})
	return m, err
}

// object reads a map whose keys are text. One with other keys can't be an object, and
// is taken for a Map.
func (d *decoder) object(h head) (any, error) {
	m, err := d.pairs(h)
	if err != nil {
		return nil, err
	}
	o := make(Object, len(m))
	for i, p := range m {
		name, ok := p.Key.(string)
		if !ok {
			return m, nil
		}
		o[i] = Member{name, p.Value}
	}
	return o, nil
}

// tagged reads what stands under a tag.
func (d *decoder) tagged(tag uint64) (any, error) {
	if tag == tagMap && readHead(d.src).major == majorMap {
		return d.pairs(d.next())
	}
	v, err := d.item()
	if err != nil {
		return nil, err
	}
	switch tag {
	case tagTime:
		return timeOf(v)
	case tagDate:
		return date(v)
	}
	switch b := v.(type) {
	case []byte:
		switch tag {
		case tagBig:
			return new(big.Int).SetBytes(b), nil
		case tagNegBig:
			n := new(big.Int).SetBytes(b)
			return n.Not(n), nil
		case tagUint8s:
			return Uint8Array(b), nil
		}
	case []any:
		if tag == tagSet {
			return Set(b), nil
		}
	}
	return Tag{tag, v}, nil
}

// date returns the time of a Date, to the precision of a float64.
func date(seconds any) (any, error) {
	if n, ok := seconds.(*big.Int); ok {
		seconds, _ = n.Float64()
	}
	b, err := dateEncoding.Marshal(cbor.Tag{Number: tagDate, Content: seconds})
	if err != nil {
		return nil, fmt.Errorf("%w: a time of %T", errMalformed, seconds)
	}
	var t time.Time
	if err := plainDecoding.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, bare{err})
	}
	return Date{t}, nil
}

// AppendTime appends a time as Marshal writes it, and reports whether it has that form.
func AppendTime(dst []byte, t time.Time) ([]byte, bool) {
	if badTime(t) != "" {
		return dst, false
	}
	text := t.Format(time.RFC3339Nano)
	return append(AppendHead(AppendHead(dst, majorTag, tagTime), majorText, uint64(len(text))), text...), true
}

// timeOf returns the time of a text.
func timeOf(v any) (any, error) {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("%w: a time of %.40q", errMalformed, text)
	}
	return t, nil
}
