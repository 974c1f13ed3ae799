package traces

import (
	"encoding/binary"
	"math"
	"math/big"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// decodeValue returns the value that b holds. What isn't a value of the profile comes as the
// bytes that are there: one attribute isn't a reason to lose a span.
func decodeValue(b []byte) Value {
	d := valueDecoder{b: b}
	v := d.item(0)
	if d.bad || len(d.b) > 0 {
		return BytesValue(b)
	}
	return v
}

// A valueDecoder reads CBOR. Once bad is set nothing is right any more.
type valueDecoder struct {
	b   []byte
	bad bool
}

func (d *valueDecoder) fail() Value {
	d.bad, d.b = true, nil
	return Value{}
}

// take returns the next n bytes.
func (d *valueDecoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// head reads a head; info tells floats of different sizes apart. Indefinite lengths are
// no part of the profile.
func (d *valueDecoder) head() (major, info byte, arg uint64) {
	first := d.take(1)
	if first == nil {
		return majorSimple, 0, 0
	}
	major, info = first[0]&0xe0, first[0]&0x1f
	switch {
	case info < 24:
		return major, info, uint64(info)
	case info > head64:
		d.fail()
		return majorSimple, 0, 0
	}
	for _, b := range d.take(1 << (info - 24)) {
		arg = arg<<8 | uint64(b)
	}
	return major, info, arg
}

// maxRead bounds how deep values are nested that are read. That of a program's own type may be as deep as package cbor takes it,
// within others.
const maxRead = maxDepth + 128

func (d *valueDecoder) item(depth int) Value {
	if depth > maxRead {
		return d.fail()
	}
	major, info, arg := d.head()
	switch major {
	case majorUint:
		return uintValue(arg)
	case majorNeg:
		if arg > math.MaxInt64 {
			return BigValue(new(big.Int).Not(new(big.Int).SetUint64(arg)))
		}
		return IntValue(-1 - int64(arg))
	case majorBytes:
		return BytesValue(d.take(arg))
	case majorText:
		b := d.take(arg)
		if !utf8.Valid(b) {
			return d.fail()
		}
		return StringValue(string(b))
	case majorArray:
		return d.array(arg, depth)
	case majorMap:
		return d.members(arg, depth)
	case majorTag:
		return d.tagged(arg, depth)
	}
	return d.simple(info, arg)
}

func (d *valueDecoder) simple(info byte, arg uint64) Value {
	switch majorSimple | info {
	case headFalse, headTrue:
		return BoolValue(majorSimple|info == headTrue)
	case headNull, headUndef:
		return Value{}
	case headFloat16:
		return FloatValue(cbor.Float16(uint16(arg)))
	case headFloat32:
		return FloatValue(float64(math.Float32frombits(uint32(arg))))
	case headFloat64:
		f := math.Float64frombits(arg)
		if isJSInt(f) {
			return IntValue(int64(f))
		}
		return FloatValue(f)
	}
	return d.fail()
}

func (d *valueDecoder) array(n uint64, depth int) Value {
	if n > uint64(len(d.b)) { // an element takes a byte at least
		return d.fail()
	}
	list := make([]Value, 0, n)
	for range n {
		list = append(list, d.item(depth+1))
		if d.bad {
			return Value{}
		}
	}
	return ArrayValue(list...)
}

// members reads a map. One with keys that are no text becomes an array of pairs.
func (d *valueDecoder) members(n uint64, depth int) Value {
	if n > uint64(len(d.b))/2 {
		return d.fail()
	}
	members, pairs, named := make([]Attr, 0, n), make([]Value, 0, 2*n), true
	for range n {
		key := d.item(depth + 1)
		value := d.item(depth + 1)
		if d.bad {
			return Value{}
		}
		named = named && key.typ == typeString
		members, pairs = append(members, Attr{key.text, value}), append(pairs, ArrayValue(key, value))
	}
	if !named {
		return ArrayValue(pairs...)
	}
	return MapValue(members...)
}

// tagged reads what stands under a tag. Of an unknown one the value is what counts.
func (d *valueDecoder) tagged(tag uint64, depth int) Value {
	if tag == tagTransport && len(d.b) > 0 && d.b[0] == headFloat64 {
		_, _, bits := d.head()
		return FloatValue(math.Float64frombits(bits))
	}
	v := d.item(depth + 1)
	switch {
	case d.bad:
		return Value{}
	case tag == tagTime && v.typ == typeString:
		t, err := time.Parse(time.RFC3339, v.text)
		if err != nil {
			return d.fail()
		}
		return TimeValue(t)
	case tag == tagDate:
		return d.date(v)
	case tag == tagBig && v.typ == typeBytes:
		return BigValue(new(big.Int).SetBytes([]byte(v.text)))
	case tag == tagNegBig && v.typ == typeBytes:
		n := new(big.Int).SetBytes([]byte(v.text))
		return BigValue(n.Not(n))
	case tag >= firstTyped && tag <= lastTyped && v.typ == typeBytes:
		return typedArray(tag, []byte(v.text))
	}
	return v
}

// date returns the time of a Date, to the precision of a float64.
func (d *valueDecoder) date(seconds Value) Value {
	if seconds.typ == typeInt {
		return TimeValue(time.Unix(seconds.asInt(), 0).UTC())
	}
	whole, part := math.Modf(seconds.asFloat())
	if seconds.typ != typeFloat || !(math.Abs(whole) < maxJSInt) { // also NaN: an invalid Date
		return Value{}
	}
	// A float64 holds times of today to a quarter of a microsecond.
	return TimeValue(time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC())
}

// Typed arrays, RFC 8746 §2.1: the bits of a tag say what it holds. Uint8Array, which is
// one of them, is bytes.
const (
	firstTyped = 64
	lastTyped  = 87
)

func typedArray(tag uint64, b []byte) Value {
	float, signed, little := tag&16 != 0, tag&8 != 0, tag&4 != 0
	size := 1 << (tag & 3)
	if float {
		size *= 2
	}
	if size == 1 && !signed || size == 16 || len(b)%size != 0 {
		return BytesValue(b)
	}
	var order binary.ByteOrder = binary.BigEndian
	if little {
		order = binary.LittleEndian
	}
	list := make([]Value, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		list = append(list, typedElement(order, b[:size], float, signed))
	}
	return ArrayValue(list...)
}

func typedElement(order binary.ByteOrder, b []byte, float, signed bool) Value {
	var n uint64
	switch len(b) {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(order.Uint16(b))
	case 4:
		n = uint64(order.Uint32(b))
	default:
		n = order.Uint64(b)
	}
	shift := 64 - 8*len(b)
	switch {
	case float && len(b) == 2:
		return FloatValue(cbor.Float16(uint16(n)))
	case float && len(b) == 4:
		return FloatValue(float64(math.Float32frombits(uint32(n))))
	case float:
		return FloatValue(math.Float64frombits(n))
	case signed:
		return IntValue(int64(n<<shift) >> shift)
	}
	return uintValue(n)
}

// uintValue returns the Value of n.
func uintValue(n uint64) Value {
	if n > math.MaxInt64 {
		return BigValue(new(big.Int).SetUint64(n))
	}
	return IntValue(int64(n))
}
