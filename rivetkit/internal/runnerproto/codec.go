package runnerproto

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// An Optional is a value that a message has or leaves out.
type Optional[T any] struct {
	Value T
	Set   bool // false if it is left out; Value is the zero T then
}

// Some returns an Optional that has v.
func Some[T any](v T) Optional[T] { return Optional[T]{v, true} }

// noKind is the name of a message in errors until its tag is known.
const noKind = "message of no kind"

// A codec goes over the fields of one message in their order. Its methods write the value that they are given, or read
// it, so that each message is described once: by its method fields. That method changes nothing of a message that is written.
//
// A codec writes nothing that a bare.Reader would refuse: the first such value is an error, which stays, and nothing is
// written after it.
type codec struct {
	v Version
	r *bare.Reader // nil to write

	name  string // of the message, noKind until it is known
	b     []byte
	start int // where the message begins in b
	err   error
}

// fail makes c fail, if it hasn't yet, with an error that wraps ErrMalformed.
func (c *codec) fail(format string, args ...any) {
	switch {
	case c.r != nil:
		c.r.Fail(format, args...)
	case c.err == nil:
		c.err = fmt.Errorf("%w: %s at byte %d: %s", ErrMalformed, c.name, len(c.b)-c.start, fmt.Sprintf(format, args...))
	}
}

// since makes c fail, if it hasn't yet, with an error that wraps ErrVersion: the version is below v.
func (c *codec) since(v Version, what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s needs the %s, this connection has the %s", ErrVersion, what, v.protocol(), c.v.protocol())
	}
}

// has reports whether the version has a field that exists since v. If not, and the message is written and says something in
// the field, c fails.
func (c *codec) has(v Version, what string, says bool) bool {
	if c.v < v && c.r == nil && says {
		c.since(v, what)
	}
	return c.v >= v
}

// failed reports whether c has failed.
func (c *codec) failed() bool { return c.err != nil || c.r != nil && c.r.Err() != nil }

// room reports whether n more bytes may be written.
func (c *codec) room(n int) bool {
	if n > maxSize-(len(c.b)-c.start) {
		c.fail("message of more than %d bytes", maxSize)
	}
	return c.err == nil
}

// field goes over a value of n bytes.
func field[T any](c *codec, p *T, n int, read func(*bare.Reader) T, add func([]byte, T) []byte) {
	if c.r != nil {
		*p = read(c.r)
	} else if c.room(n) {
		c.b = add(c.b, *p)
	}
}

func (c *codec) bool(p *bool)  { field(c, p, 1, (*bare.Reader).Bool, bare.AppendBool) }
func (c *codec) u16(p *uint16) { field(c, p, 2, (*bare.Reader).U16, bare.AppendU16) }
func (c *codec) u32(p *uint32) { field(c, p, 4, (*bare.Reader).U32, bare.AppendU32) }
func (c *codec) u64(p *uint64) { field(c, p, 8, (*bare.Reader).U64, bare.AppendU64) }
func (c *codec) i64(p *int64)  { field(c, p, 8, (*bare.Reader).I64, bare.AppendI64) }

// float goes over a float with its first byte first, unlike all other numbers.
func (c *codec) float(p *float64) {
	field(c, p, 8, func(r *bare.Reader) (f float64) {
		if b := r.Fixed(8); b != nil {
			f = math.Float64frombits(binary.BigEndian.Uint64(b))
		}
		return f
	}, func(b []byte, f float64) []byte { return binary.BigEndian.AppendUint64(b, math.Float64bits(f)) })
}

// tag goes over a tag below n.
func (c *codec) tag(p *uint8, n int) {
	field(c, p, 1, func(r *bare.Reader) uint8 { return r.Tag(n) }, bare.AppendU8)
}

// enum goes over the value of an enumeration with n values.
func (c *codec) enum(p *uint8, n int, what string) {
	if c.r == nil && int(*p) >= n {
		c.fail("%s %d of %d", what, *p, n)
	}
	c.tag(p, n)
}

// fixed goes over bytes whose number both sides know.
func (c *codec) fixed(p []byte) {
	if c.r != nil {
		copy(p, c.r.Fixed(len(p)))
	} else if c.room(len(p)) {
		c.b = bare.AppendFixed(c.b, p)
	}
}

// length writes n, and reports whether there is room for it and for the bytes behind it.
func (c *codec) length(n, behind int) bool {
	var scratch [binary.MaxVarintLen64]byte
	b := bare.AppendUint(scratch[:0], uint64(n))
	if !c.room(len(b) + behind) {
		return false
	}
	c.b = append(c.b, b...)
	return true
}

func (c *codec) data(p *[]byte) {
	if c.r != nil {
		*p = c.r.Data()
	} else if c.length(len(*p), len(*p)) {
		c.b = append(c.b, *p...)
	}
}

func (c *codec) str(p *string) {
	if c.r != nil {
		*p = c.r.String()
		return
	}
	if !utf8.ValidString(*p) {
		c.fail("str %.40q is not valid UTF-8", *p)
	}
	if c.length(len(*p), len(*p)) {
		c.b = append(c.b, *p...)
	}
}

// body goes over data that may be left out: it is nil then, and only then.
func (c *codec) body(p *[]byte) {
	here := *p != nil
	if c.bool(&here); here {
		c.data(p)
	}
}

func optional[T any](c *codec, o *Optional[T], value func(*codec, *T)) {
	if c.bool(&o.Set); o.Set {
		value(c, &o.Value)
	}
}

// count goes over the number of elements of a list or a map, which is n when it is written.
func (c *codec) count(n, limit int) int {
	if c.r != nil {
		return c.r.Len(limit)
	}
	if n > limit {
		c.fail("count %d, limit %d", n, limit)
	}
	c.length(n, 0)
	return n
}

// list goes over a list, which is nil if it is read and has no elements. A T is at most some dozen bytes, and takes at least
// one byte of the message.
func list[T any](c *codec, p *[]T, fields func(*T, *codec)) { limited(c, p, maxCount, fields) }

// limited goes over a list of at most limit elements.
func limited[T any](c *codec, p *[]T, limit int, fields func(*T, *codec)) {
	if n := c.count(len(*p), limit); c.r != nil && n > 0 {
		*p = make([]T, n)
	}
	each(c, *p, fields)
}

// maybe goes over a list that may be left out: it is nil then, and only then.
func maybe[T any](c *codec, p *[]T, list func(*[]T, *codec)) {
	here := *p != nil
	if c.bool(&here); here {
		if list(p, c); *p == nil {
			*p = []T{}
		}
	}
}

// column goes over a list that has one value for each element of rows, which an earlier list has made. mismatch is the format of
// an error of two numbers of elements.
func column[T any](c *codec, rows []T, mismatch string, fields func(*T, *codec)) {
	if n := c.count(len(rows), maxCount); n != len(rows) {
		c.fail(mismatch, len(rows), n)
	}
	each(c, rows, fields)
}

func each[T any](c *codec, list []T, fields func(*T, *codec)) {
	for i := range list {
		if fields(&list[i], c); c.failed() {
			return
		}
	}
}

func (c *codec) numbers(p *[]uint32) { list(c, p, func(n *uint32, c *codec) { c.u32(n) }) }

func (c *codec) datas(p *[][]byte) { list(c, p, func(b *[]byte, c *codec) { c.data(b) }) }

// pairs goes over a map, whose pairs are the list, in their order.
func pairs[T any](c *codec, p *[]T, key func(*T) string, fields func(*T, *codec)) {
	if c.r == nil {
		unique(c, *p, key)
	}
	list(c, p, fields)
	if c.r != nil {
		unique(c, *p, key)
	}
}

// unique makes c fail if a key occurs more than once in list.
func unique[T any](c *codec, list []T, key func(*T) string) {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = key(&list[i])
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			c.fail("key %.40q occurs twice", keys[i])
			return
		}
	}
}

// A union is the types that a value of the interface U can have, in the order of their tags.
type union[U any] []member[U]

// A member is one type of a union, or a union that has one tag in another.
type member[U any] struct {
	name   string
	since  Version // the first that has it
	has    func(U) bool
	fields func(*U, *codec)
}

// of returns the member of the type T, whose fields are these.
func of[U, T any](fields func(*T, *codec)) member[U] {
	return member[U]{
		name: reflect.TypeFor[T]().Name(),
		has: func(u U) bool {
			_, ok := any(u).(T)
			return ok
		},
		fields: func(u *U, c *codec) {
			v, _ := any(*u).(T)
			if fields(&v, c); c.r != nil {
				*u = any(v).(U)
			}
		},
	}
}

// nothing goes over a type without fields.
func nothing[T any](*T, *codec) {}

func (s union[U]) has(u U) bool {
	return slices.ContainsFunc(s, func(m member[U]) bool { return m.has(u) })
}

// from returns the member for a union that has it since v. In older versions the tags behind it are lower.
func (m member[U]) from(v Version) member[U] {
	m.since = v
	return m
}

// size returns how many members version v has.
func (s union[U]) size(v Version) (n int) {
	for i := range s {
		if s[i].since <= v {
			n++
		}
	}
	return n
}

// value goes over the tag and the fields of u. missing is the error of one that is nil.
func (s union[U]) value(c *codec, u *U, missing string) {
	var tag uint8
	var i int // of the member in s, which is more than its tag if older versions lack members before it
	if c.r == nil {
		if i = slices.IndexFunc(s, func(m member[U]) bool { return m.has(*u) }); i < 0 {
			c.fail("%s", missing)
			return
		}
		if !c.has(s[i].since, s[i].name, true) {
			return
		}
		tag = uint8(s[:i].size(c.v))
		c.call(s[i].name)
	}
	if c.tag(&tag, s.size(c.v)); c.failed() {
		return
	}
	if c.r != nil {
		for s[i].since > c.v || s[:i].size(c.v) < int(tag) {
			i++
		}
		c.call(s[i].name)
	}
	s[i].fields(u, c)
}

// call gives the message its name, unless it has one.
func (c *codec) call(name string) {
	if c.name == noKind {
		c.name = name
	}
}
