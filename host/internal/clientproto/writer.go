package clientproto

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// Heads in CBOR.
const (
	headObject = 0xb9 // a map with a 16-bit count
	headBigint = 0x1b // a positive integer of 8 bytes
	headFalse  = 0xf4
	headTrue   = 0xf5
	emptyList  = 0x80
	majorText  = 3 << 5
	majorList  = 4 << 5
	majorOf    = 7 << 5 // the bits of a head that are its type
)

// A writer appends one message: in BARE the fields one behind the other, else an object of
// CBOR, with the fields as members. done makes JSON of that.
type writer struct {
	as      Encoding
	escapes bool   // values, for the client
	before  []byte // what the message is appended to
	b       []byte // which ends with what is written of the message
	object  int    // where in b the object begins that the fields are members of
	members int    // how many it has
	err     error
}

// newWriter returns a writer of a message in a version, between a server and a client of version
// peer.
func newWriter(dst []byte, e Encoding, v, peer Version) *writer {
	w := &writer{as: e, before: dst, b: dst}
	switch e {
	case Bare:
		w.b = bare.AppendVersion(dst, uint16(v))
		w.escapes = peer >= escapeVersion
	case JSON:
		w.b = make([]byte, 0, 128)
	case CBOR:
	default:
		panic("clientproto: unknown encoding " + e.String())
	}
	return w
}

// begin begins a body over HTTP.
func (w *writer) begin() *writer {
	if w.as != Bare {
		w.object = len(w.b)
		w.b = append(w.b, headObject, 0, 0)
	}
	return w
}

// beginTag begins a message of a socket. names are those of the union that it is of.
func (w *writer) beginTag(names []string, tag uint8) *writer {
	if w.as == Bare {
		w.b = bare.AppendU8(w.b, tag)
		return w
	}
	w.b = appendName(append(w.b, headObject, 0, 1), "body")
	w.b = appendName(append(w.b, headObject, 0, 2), "tag")
	w.b = appendName(appendName(w.b, names[tag]), "val")
	return w.begin()
}

// done returns what the message was appended to, and the message if there was no error.
func (w *writer) done() ([]byte, error) {
	if w.err != nil {
		return w.before, w.err
	}
	if w.as == Bare {
		return w.b, nil
	}
	binary.BigEndian.PutUint16(w.b[w.object+1:], uint16(w.members))
	if w.as == JSON {
		return AppendJSON(w.before, w.b)
	}
	return w.b, nil
}

// appendName appends a text in CBOR.
func appendName(dst []byte, s string) []byte {
	return append(cbor.AppendHead(dst, majorText, uint64(len(s))), s...)
}

// member begins a member of the object.
func (w *writer) member(name string) {
	w.members++
	w.b = appendName(w.b, name)
}

// absent writes that an optional field isn't there: in BARE as such, else as undefined.
func (w *writer) absent(name string) {
	if w.as == Bare {
		w.b = bare.AppendBool(w.b, false)
		return
	}
	w.member(name)
	w.b = append(w.b, undefined)
}

// null writes null as a member, which no field of BARE is.
func (w *writer) null(name string) {
	w.member(name)
	w.b = append(w.b, null)
}

// present writes that an optional field is there, which follows.
func (w *writer) present() {
	if w.as == Bare {
		w.b = bare.AppendBool(w.b, true)
	}
}

// text writes a text. Bytes that aren't UTF-8 become U+FFFD: no client could read them.
func (w *writer) text(name, s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if w.as == Bare {
		w.b = bare.AppendString(w.b, s)
		return
	}
	w.member(name)
	w.b = appendName(w.b, s)
}

func (w *writer) flag(name string, yes bool) {
	switch {
	case w.as == Bare:
		w.b = bare.AppendBool(w.b, yes)
		return
	case yes:
		w.member(name)
		w.b = append(w.b, headTrue)
	default:
		w.member(name)
		w.b = append(w.b, headFalse)
	}
}

// id writes the number of an action. It is a bigint of JavaScript, which has 8 bytes.
func (w *writer) id(name string, id ActionID) {
	if w.as == Bare {
		w.b = bare.AppendUint(w.b, uint64(id))
		return
	}
	w.member(name)
	w.b = binary.BigEndian.AppendUint64(append(w.b, headBigint), uint64(id))
}

// number writes a number of JavaScript.
func (w *writer) number(name string, n uint64) {
	if w.as == Bare {
		w.b = bare.AppendU64(w.b, n)
		return
	}
	w.member(name)
	b, err := cbor.Marshal(n)
	if err != nil {
		panic("clientproto: an integer has no CBOR: " + err.Error())
	}
	w.b = append(w.b, b...)
}

// value writes a value. nil is undefined, which JSON hasn't: there it is null.
func (w *writer) value(name string, v []byte) {
	switch {
	case len(v) == 0 || len(v) == 1 && v[0] == undefined:
		v = []byte{undefined}
		if w.as == JSON {
			v = []byte{null}
		}
	case w.escapes:
		var err error
		if v, err = Escape(v); err != nil && w.err == nil {
			w.err = err
		}
	}
	if w.as == Bare {
		w.b = bare.AppendData(w.b, v)
		return
	}
	w.member(name)
	w.b = append(w.b, v...)
}

// list writes a value that is an array. nil is an empty one.
func (w *writer) list(name string, v []byte) {
	switch {
	case len(v) == 0:
		v = []byte{emptyList}
	case v[0]&majorOf != majorList && w.err == nil:
		w.err = fmt.Errorf("%w value: %s that aren't an array", ErrMalformed, name)
	}
	w.value(name, v)
}
