package element

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Decode returns the value of the one element that b is: nil, a bool, an int64, a uint64, a
// float64, a string, a []byte, a []any or a map[string]any of such values, and never a nil slice
// or map. It shares no memory with b. The error is an *Error: b ends too early or goes on behind
// the element, or has an unknown tag, a bool other than 0 and 1, a length or count that is
// negative or larger than what follows, text that is not UTF-8, one key twice in a dictionary, or
// values nested deeper than MaxDepth. No memory is reserved for what b claims to hold.
func Decode(b []byte) (any, error) {
	d := &decoder{b: b}
	v := d.value(0)
	if err := d.end(); err != nil {
		return nil, err
	}
	return v, nil
}

// DecodePair returns the two values that b is: two elements, one behind the other, or an array of
// two. Types, ownership and errors are those of Decode.
func DecodePair(b []byte) (first, second any, err error) {
	d := &decoder{b: b}
	first = d.value(0)
	if both, ok := first.([]any); ok && len(both) == 2 && d.at == len(b) {
		first, second = both[0], both[1]
	} else {
		second = d.value(0)
	}
	if err := d.end(); err != nil {
		return nil, nil, err
	}
	return first, second, nil
}

// Strings returns the elements of an array of strings, as the documented sets are: in their order,
// with any that occur twice. They share one copy of b, and no memory with b itself. The error is
// an *Error, as Decode's are, and also for an element that is not a string.
func Strings(b []byte) ([]string, error) {
	d, text := &decoder{b: b}, string(b)
	d.want(tagArray)
	list := make([]string, d.count(1+8)) // a string has a tag and a length at least
	for i := 0; i < len(list) && d.err == nil; i++ {
		d.want(tagString)
		n := len(d.text())
		list[i] = text[d.at-n : d.at]
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return list, nil
}

// A decoder reads b from the offset at. After an error it reads zeros.
type decoder struct {
	b   []byte
	at  int
	err error
}

func (d *decoder) fail(at int, format string, args ...any) {
	if d.err == nil { // the first one says most
		d.err = &Error{at, fmt.Sprintf(format, args...)}
	}
}

// end returns the error, and one for bytes that are left.
func (d *decoder) end() error {
	if left := len(d.b) - d.at; left > 0 {
		d.fail(d.at, "%d bytes are left over", left)
	}
	return d.err
}

// take returns the next n bytes, a part of b. More than 8 are there, because count has looked.
func (d *decoder) take(n int) []byte {
	if left := len(d.b) - d.at; left < n {
		d.fail(d.at, "%d bytes are wanted, %d are left", n, left)
	}
	if d.err != nil {
		return make([]byte, n)
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) word() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

// count returns a length or a count of things that have at least so many bytes each.
func (d *decoder) count(each int) int {
	n, left := d.word(), len(d.b)-d.at
	if n > uint64(left/each) { // as a negative one is, too
		d.fail(d.at-8, "a length or count of %d, before %d bytes", int64(n), left)
		return 0
	}
	return int(n)
}

// text returns what stands behind its length, a part of b.
func (d *decoder) text() []byte {
	b := d.take(d.count(1))
	if !utf8.Valid(b) {
		d.fail(d.at-len(b), "text that is not UTF-8")
	}
	return b
}

func (d *decoder) want(tag byte) {
	if got := d.take(1)[0]; got != tag {
		d.fail(d.at-1, "the tag %02x, not %02x", got, tag)
	}
}

// value reads an element that stands inside so many arrays and dictionaries.
func (d *decoder) value(depth int) any {
	if depth > MaxDepth {
		d.fail(d.at, "values are nested deeper than %d", MaxDepth)
	}
	switch tag := d.take(1)[0]; tag {
	case tagNull:
		return nil
	case tagBool:
		b := d.take(1)[0]
		if b > 1 {
			d.fail(d.at-1, "a bool of %d", b)
		}
		return b == 1
	case tagInt64:
		return int64(d.word())
	case tagUint64:
		return d.word()
	case tagDouble:
		return math.Float64frombits(d.word())
	case tagString:
		return string(d.text())
	case tagBinary:
		return append([]byte{}, d.take(d.count(1))...)
	case tagArray:
		list := []any{}
		for n := d.count(1); len(list) < n && d.err == nil; {
			list = append(list, d.value(depth+1))
		}
		return list
	case tagDictionary:
		return d.dictionary(depth + 1)
	default:
		d.fail(d.at-1, "the unknown tag %02x", tag)
		return nil
	}
}

func (d *decoder) dictionary(depth int) map[string]any {
	m := map[string]any{}
	for n := d.count(8 + 1); len(m) < n && d.err == nil; { // an entry has a length and a tag at least
		if d.at < len(d.b) && d.b[d.at] == tagString { // else the key has no tag
			d.at++
		}
		key := string(d.text())
		if _, twice := m[key]; twice {
			d.fail(d.at-len(key), "the key %.100q a second time", key)
		}
		m[key] = d.value(depth)
	}
	return m
}
