package clientproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A raw is a value within a message in CBOR, of which it is a part.
type raw []byte

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (r *raw) UnmarshalCBOR(b []byte) error {
	*r = b[:len(b):len(b)]
	return nil
}

// missing says that there is no value, or that it is undefined or null.
func (r raw) missing() bool { return len(r) == 0 || r[0] == undefined || r[0] == null }

// A frame is a message of a socket, in CBOR.
type frame struct {
	Body struct {
		Tag string         `cbor:"tag"`
		Val map[string]raw `cbor:"val"`
	} `cbor:"body"`
}

// A reader reads the fields of one message: in BARE in their order, else by their names. The
// first error sticks, and done returns it; until then a read returns a zero value.
type reader struct {
	message   string       // its name, for errors
	bare      *bare.Reader // nil in other encodings
	cbor      []byte       // the message; made of JSON if that is the encoding
	members   map[string]raw
	unescapes bool // values, of a client
	err       error
}

func newReader(message string, e Encoding, b []byte) *reader {
	r := &reader{message: message}
	if len(b) > maxSize {
		r.check("", fmt.Errorf("%d bytes, limit %d", len(b), maxSize))
		return r
	}
	switch e {
	case Bare:
		r.bare = bare.NewReader(b)
	case CBOR:
		r.cbor = b
	case JSON:
		var err error
		r.cbor, err = fromJSON(b)
		r.check("", err)
	default:
		panic("clientproto: unknown encoding " + e.String())
	}
	return r
}

// version reads the version. One that isn't from first to last is an error. Only BARE has a version; in
// the other encodings it is 0.
func (r *reader) version(first, last Version) Version {
	if r.bare == nil || r.failed() {
		return 0
	}
	v := Version(r.bare.U16())
	if !r.failed() {
		r.err = v.between(first, last, r.message)
	}
	return v
}

// begin begins a body over HTTP.
func (r *reader) begin() *reader {
	if r.bare == nil && !r.failed() {
		r.check("", cbor.UnmarshalExact(r.cbor, &r.members))
	}
	return r
}

// tag begins a message of a socket, and returns its place among names. After an error it is 0.
func (r *reader) tag(names []string) int {
	switch {
	case r.failed():
		return 0
	case r.bare != nil:
		return int(r.bare.Tag(len(names)))
	}
	var f frame
	if r.check("", cbor.UnmarshalExact(r.cbor, &f)); r.failed() {
		return 0
	}
	tag := slices.Index(names, f.Body.Tag)
	if tag < 0 {
		r.check("", fmt.Errorf("the tag %.32q is none of %q", f.Body.Tag, names))
		return 0
	}
	r.message, r.members = f.Body.Tag, f.Body.Val
	return tag
}

// done ends the message and returns the first error.
func (r *reader) done() error {
	if r.err == nil && r.bare != nil {
		if err := r.bare.Done(); err != nil {
			r.err = malformed(r.message, err)
		}
	}
	return r.err
}

func (r *reader) failed() bool { return r.err != nil || r.bare != nil && r.bare.Err() != nil }

// check makes r fail, if it hasn't yet, with an error about a field, or about all if the name is
// empty.
func (r *reader) check(name string, err error) {
	if err == nil || r.failed() {
		return
	}
	what := r.message
	if name != "" {
		what += "." + name
	}
	r.err = malformed(what, err)
}

// fail makes r fail, if it hasn't yet, because a field isn't what it must be.
func (r *reader) fail(name, want string) { r.check(name, errors.New("it is no "+want)) }

// optional says whether an optional field is there.
func (r *reader) optional(name string) bool {
	if r.bare != nil {
		return !r.failed() && r.bare.Bool()
	}
	return !r.members[name].missing()
}

func (r *reader) text(name string) (s string) {
	if r.bare != nil {
		return r.bare.String()
	}
	v := r.members[name]
	if len(v) == 0 || v[0]&majorOf != majorText {
		r.fail(name, "text")
		return ""
	}
	r.check(name, cbor.UnmarshalExact(v, &s))
	return s
}

func (r *reader) flag(name string) bool {
	if r.bare != nil {
		return r.bare.Bool()
	}
	v := r.members[name]
	if len(v) != 1 || v[0] != headFalse && v[0] != headTrue {
		r.fail(name, "bool")
		return false
	}
	return v[0] == headTrue
}

// id reads the number of an action. A number of JavaScript isn't one, only a bigint is.
func (r *reader) id(name string) ActionID {
	if r.bare != nil {
		return ActionID(r.bare.Uint())
	}
	v := r.members[name]
	if len(v) != 9 || v[0] != headBigint {
		r.fail(name, "bigint of 64 bits without a sign")
		return 0
	}
	return ActionID(binary.BigEndian.Uint64(v[1:]))
}

// number reads an integer, which JavaScript may have written as a float.
func (r *reader) number(name string) (n uint64) {
	if r.bare != nil {
		return r.bare.U64()
	}
	r.check(name, cbor.Unmarshal(r.members[name], &n))
	return n
}

// value reads a value. It is nil if it is undefined, as a member that isn't there is.
func (r *reader) value(name string) []byte {
	v := r.anyValue(name)
	if len(v) == 1 && v[0] == undefined {
		return nil
	}
	return v
}

// anyValue reads a value, also undefined.
func (r *reader) anyValue(name string) []byte {
	if r.bare == nil {
		return r.members[name]
	}
	v := r.bare.Data()
	if r.failed() {
		return nil
	}
	var err error
	if r.unescapes {
		v, err = rewrite(v, unmark)
	} else {
		err = cbor.Wellformed(v)
	}
	if r.check(name, err); err != nil {
		return nil
	}
	return v
}

// list reads a value that must be an array.
func (r *reader) list(name string) []byte {
	v := r.value(name)
	if len(v) == 0 || v[0]&majorOf != majorList {
		r.fail(name, "array")
		return nil
	}
	return v
}
