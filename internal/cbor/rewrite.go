package cbor

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// The major types of a head, RFC 8949 §3.1.
const (
	majorUint = iota << 5
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

// Heads and tags of the profile.
const (
	headNull      = 0xf6
	headUndefined = 0xf7
	headObject    = 0xb9 // a map with a 16-bit count
	headBreak     = 0xff
	head64        = 0x1b // a positive integer of 8 bytes

	infoFloat64    = 27
	infoIndefinite = 31

	tagTime    = 0
	tagDate    = 1
	tagBig     = 2
	tagNegBig  = 3
	tagUint8s  = 64
	tagSet     = 258
	tagMap     = 259
	tagNumber  = 0x67726e6d // of nobody: see integers
	maxMembers = math.MaxUint16
)

// maxExact is up to where a float64 holds every integer.
const maxExact = 1 << 53

// A head is the beginning of an item: its type and its argument, which is a value, a
// length, a count, a tag, or the bits of a float, as the type says.
type head struct {
	major, info byte
	arg         uint64
	size        int // bytes of the head itself
}

// readHead reads the head at the beginning of b, which is well-formed.
func readHead(b []byte) head {
	h := head{major: b[0] &^ 31, info: b[0] & 31, size: 1}
	switch h.info {
	case 24:
		h.arg, h.size = uint64(b[1]), 2
	case 25:
		h.arg, h.size = uint64(binary.BigEndian.Uint16(b[1:])), 3
	case 26:
		h.arg, h.size = uint64(binary.BigEndian.Uint32(b[1:])), 5
	case 27:
		h.arg, h.size = binary.BigEndian.Uint64(b[1:]), 9
	case infoIndefinite:
	default:
		h.arg = uint64(h.info)
	}
	return h
}

// float returns the value of a head that is a float.
func (h head) float() (f float64, ok bool) {
	if h.major != majorSimple {
		return 0, false
	}
	switch h.info {
	case 25:
		return Float16(uint16(h.arg)), true
	case 26:
		return float64(math.Float32frombits(uint32(h.arg))), true
	case 27:
		return math.Float64frombits(h.arg), true
	}
	return 0, false
}

// Float16 returns the value of a half-precision float (RFC 8949 appendix D).
func Float16(h uint16) float64 {
	exp, mant := int(h>>10&31), float64(h&1023)
	var f float64
	switch exp {
	case 0:
		f = math.Ldexp(mant, -24)
	case 31:
		if f = math.Inf(1); mant != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(mant+1024, exp-25)
	}
	if h&0x8000 != 0 {
		return -f
	}
	return f
}

// appendNumber appends an integral number as JavaScript's would be written.
func appendNumber(dst []byte, f float64) []byte {
	switch {
	case f == 0:
		return append(dst, 0) // also −0
	case f > 0 && f <= math.MaxUint32:
		return AppendHead(dst, majorUint, uint64(f))
	case f < 0 && f >= -1<<32:
		return AppendHead(dst, majorNegative, uint64(-f)-1)
	}
	return appendFloat(dst, f)
}

func appendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, majorSimple|infoFloat64), math.Float64bits(f))
}

// AppendHead appends the shortest head of an item: its major type, in the highest three bits
// of major, and its argument, as RFC 8949 §3 has them.
func AppendHead(dst []byte, major byte, arg uint64) []byte {
	switch {
	case arg < 24:
		return append(dst, major|byte(arg))
	case arg <= math.MaxUint8:
		return append(dst, major|24, byte(arg))
	case arg <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(arg))
	case arg <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), arg)
}

// A rewriter turns well-formed CBOR into that of the profile, and refuses what can't be read
// back.
type rewriter struct {
	src, dst []byte
	path     path // to the item, for errors
	left     int  // how deep items may still be nested
	keys     bool // keys of one map may be alike
	foreign  bool // written by others, who may store what Marshal doesn't: it is only checked
}

// A step leads from a value to one in it: a member of an object if name is not nil,
// an element of an array otherwise.
type step struct {
	name  []byte
	key   reflect.Value // its text is the name, if it is valid
	index int
}

// A path leads to a part of a value.
type path []step

// String returns the path as JavaScript would write it.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		if s.key.IsValid() {
			s.name = []byte(keyName(s.key))
		}
		switch {
		case s.name == nil:
			fmt.Fprintf(&b, "[%d]", s.index)
		case i > 0:
			b.WriteByte('.')
			fallthrough
		default:
			b.Write(s.name)
		}
	}
	return clip(b.String())
}

// refuse returns the error of the item.
func (w *rewriter) refuse(format string, args ...any) error {
	return &ValueError{w.path.String(), fmt.Sprintf(format, args...)}
}

// rewrite returns the well-formed CBOR of src in the profile.
func (w *rewriter) rewrite() ([]byte, error) {
	w.dst = make([]byte, 0, len(w.src)+16)
	if err := w.item(0); err != nil {
		return nil, err
	}
	return w.dst, nil
}

// copy takes n bytes over as they are.
func (w *rewriter) copy(n int) {
	w.dst = append(w.dst, w.src[:n]...)
	w.src = w.src[n:]
}

// item rewrites one item, which stands under tag, or under 0.
func (w *rewriter) item(tag uint64) error {
	h := readHead(w.src)
	switch h.major {
	case majorUint, majorNegative:
		w.integer(h, tag)
	case majorBytes, majorText:
		return w.text(h)
	case majorArray, majorMap, majorTag:
		if w.left == 0 {
			return w.refuse("a value that is nested too deep")
		}
		w.left--
		err := w.nested(h, tag)
		w.left++
		return err
	default:
		return w.simple(h, tag)
	}
	return nil
}

// nested rewrites an item that has others in it.
func (w *rewriter) nested(h head, tag uint64) error {
	switch {
	case h.major != majorTag && h.arg > maxElements:
		return w.refuse("a value of %d parts, limit %d", h.arg, maxElements)
	case h.major == majorMap:
		return w.members(h, tag)
	case h.major == majorTag && (h.arg == tagBig || h.arg == tagNegBig):
		return w.bigint(h)
	}
	w.copy(h.size)
	if h.major == majorTag {
		return w.item(h.arg)
	}
	return w.each(h, func(i int) error {
		return w.within(step{index: i})
	})
}

// integer rewrites an integer. One that has more bytes than it needs is a bigint
// already; a Date has no other integers than its seconds.
func (w *rewriter) integer(h head, tag uint64) {
	small := h.arg <= math.MaxUint32
	switch {
	case h.info == infoFloat64 && small,
		h.major == majorUint && small,
		h.major == majorNegative && small && tag != tagDate,
		h.arg >= maxExact:
		w.copy(h.size)
		return
	}
	f := float64(h.arg)
	if h.major == majorNegative {
		f = -1 - f
	}
	w.dst, w.src = appendFloat(w.dst, f), w.src[h.size:]
}

// bigint rewrites a bigint that 8 bytes can hold, and copies everything else that stands
// under its tag.
func (w *rewriter) bigint(tag head) error {
	h := readHead(w.src[tag.size:])
	switch {
	case h.major == majorBytes && h.info != infoIndefinite && h.arg <= 8:
	case h.major == majorBytes && h.info != infoIndefinite && h.arg > maxBigint:
		return w.refuse("a bigint of %d bytes, limit %d", h.arg, maxBigint)
	default:
		w.copy(tag.size)
		return w.item(tag.arg)
	}
	var n uint64
	from := tag.size + h.size
	for _, b := range w.src[from : from+int(h.arg)] {
		n = n<<8 | uint64(b)
	}
	major := byte(tag.arg-tagBig) * majorNegative // tag 2 is majorUint, tag 3 majorNegative
	w.dst = binary.BigEndian.AppendUint64(append(w.dst, major|head64), n)
	w.src = w.src[from+int(h.arg):]
	return nil
}

// simple rewrites a float, and copies everything else.
func (w *rewriter) simple(h head, tag uint64) error {
	f, ok := h.float()
	if !ok {
		w.copy(h.size)
		return nil
	}
	if !w.foreign && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return w.refuse("%v", f)
	}
	w.src = w.src[h.size:]
	if f == math.Trunc(f) && tag != tagDate {
		w.dst = appendNumber(w.dst, f)
	} else {
		w.dst = appendFloat(w.dst, f)
	}
	return nil
}

// text copies text or bytes; those of indefinite length are made of pieces.
func (w *rewriter) text(h head) error {
	if h.info != infoIndefinite {
		text := w.src[h.size : h.size+int(h.arg)]
		if h.major == majorText && !utf8.Valid(text) {
			return w.refuse("the text %.40q, which isn't UTF-8,", text)
		}
		w.copy(h.size + int(h.arg))
		return nil
	}
	w.copy(1)
	for w.src[0] != headBreak {
		if err := w.text(readHead(w.src)); err != nil {
			return err
		}
	}
	w.copy(1)
	return nil
}

// each calls fn for every element that h announces.
func (w *rewriter) each(h head, fn func(i int) error) error {
	if h.info == infoIndefinite {
		for i := 0; w.src[0] != headBreak; i++ {
			if err := fn(i); err != nil {
				return err
			}
		}
		w.copy(1)
		return nil
	}
	for i := range int(h.arg) {
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

// members rewrites a map: into an object, unless a tag says that it is a Map.
func (w *rewriter) members(h head, tag uint64) error {
	switch {
	case tag == tagMap || h.info == infoIndefinite:
		w.copy(h.size)
	case h.arg > maxMembers && !w.foreign:
		return w.refuse("an object of %d members", h.arg)
	default:
		w.dst = binary.BigEndian.AppendUint16(append(w.dst, headObject), uint16(h.arg))
		w.src = w.src[h.size:]
	}
	var seen map[string]bool
	if w.keys {
		seen = map[string]bool{}
	}
	return w.each(h, func(int) error {
		key := readHead(w.src)
		name := []byte("?")
		if key.major == majorText && key.info != infoIndefinite {
			name = w.src[key.size : key.size+int(key.arg)]
		}
		from := len(w.dst)
		if err := w.item(0); err != nil {
			return err
		}
		if seen != nil {
			key := sameKey(w.dst[from:])
			if seen[key] {
				return w.refuse("a map with two keys %.40q, which are one when they are read,", name)
			}
			seen[key] = true
		}
		return w.within(step{name: name})
	})
}

// sameKey returns what two keys have in common that a reader takes for one.
func sameKey(b []byte) string {
	h := readHead(b)
	for h.major == majorTag && h.arg > tagNegBig { // it means nothing to readers
		b = b[h.size:]
		h = readHead(b)
	}
	f, ok := h.float()
	switch {
	case ok && f == math.Trunc(f) && math.Abs(f) <= maxExact:
		h.major, h.arg = majorUint, uint64(f)
		if f < 0 {
			h.major, h.arg = majorNegative, uint64(-f)-1
		}
		fallthrough
	case h.major == majorUint || h.major == majorNegative:
		return string(AppendHead(nil, h.major, h.arg))
	case ok:
		return string(appendFloat(nil, f))
	case b[0] == headUndefined:
		return string([]byte{headNull})
	}
	return string(b)
}

// within rewrites the item that s leads to.
func (w *rewriter) within(s step) error {
	w.path = append(w.path, s)
	err := w.item(0)
	w.path = w.path[:len(w.path)-1]
	return err
}
