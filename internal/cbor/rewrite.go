package cbor

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// A rewriter turns well-formed CBOR into that of the profile, and refuses what can't be read
// back.
type rewriter struct {
	src, dst []byte
	path     path // to the item, for errors
	left     int  // how deep items may still be nested
	keys     bool // keys of one map may be alike, and tags may mean nothing
	foreign  bool // written by others, which may store what Marshal doesn't: it is only checked
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
	for h.major == majorTag && h.arg == tagNumber { // it is of Unmarshal, and some UnmarshalCBOR has kept it
		w.src = w.src[h.size:]
		h = readHead(w.src)
	}
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
	if h.major == majorTag && h.arg <= tagDate && w.keys {
		d := decoder{w.src}
		if _, err := d.item(); err != nil {
			return w.refuse("a tag %d without a time that can be read", h.arg)
		}
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
	case h.major != majorBytes:
		return w.refuse("a tag %d without a bigint that can be read", tag.arg)
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
		if first := w.src[0]; first < majorSimple|20 || first > headUndefined {
			return w.refuse("the simple value %d", h.arg)
		}
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
		// The library checks it when it reads, and never when it writes
		// (https://github.com/fxamacker/cbor/issues/320).
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
