package keys

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/tuple"
)

// Elements are the elements of a key, while it is being packed or unpacked. A key
// type goes through them once, in order, in its method Elements:
//
//	func (k *WorkflowID) Elements(e *keys.Elements) {
//		e.Const(actor, data)
//		e.UUID(&k.Actor)
//		e.Const(workflowID)
//	}
//
// When a key is packed, each method appends what its argument points to; when one is
// unpacked, each method takes the next element and stores it there. So both are the
// same few lines, and can't disagree. A method that meets an element of another kind,
// or a constant that isn't the one that lies there, ends the unpacking: the bytes are
// the key of another type. The rest of the calls then do nothing, and need no error
// check.
//
// The bytes are those of package tuple, one element after the other.
type Elements struct {
	buf       []byte // packing: the key so far; unpacking: what is left of it
	unpacking bool
	err       error // errOther or a mistake of the key type

	stamps  int // packing: how many versionstamps are incomplete
	stampAt int // and where the transaction part of the last one is in buf

	constant []byte // scratch: a packed constant, or bytes
}

// pack begins a key behind what is in dst.
func (e *Elements) pack(dst []byte) {
	e.buf, e.unpacking, e.err, e.stamps = dst, false, nil, 0
}

// unpack begins to take key apart.
func (e *Elements) unpack(key []byte) { e.buf, e.unpacking, e.err = key, true, nil }

// errOther ends the unpacking of a key of another type. It has no details: most of
// them are skipped, and the caller doesn't read what was wrong.
var errOther = errors.New("other key")

// Const says that els are part of every key of the type. When a key is unpacked they
// must lie there, element for element, or the key is of another type. els can be all
// that a tuple can hold, integers and strings mostly; not of a type of one's own.
func (e *Elements) Const(els ...tuple.Element) {
	if e.err != nil {
		return
	}
	if !e.unpacking {
		e.buf, e.err = tuple.Append(e.buf, els)
		return
	}
	if e.constant, e.err = tuple.Append(e.constant[:0], els); e.err != nil {
		return
	}
	rest, ok := bytes.CutPrefix(e.buf, e.constant)
	// No element begins with FF: where one follows, the constant is only the
	// beginning of a longer text.
	if !ok || len(rest) > 0 && rest[0] == 0xff {
		e.err = errOther
		return
	}
	e.buf = rest
}

// Int64 is an integer.
func (e *Elements) Int64(v *int64) {
	switch {
	case e.err != nil:
	case e.unpacking:
		*v = e.nextInt()
	default:
		e.buf = tuple.AppendInt(e.buf, *v)
	}
}

// Int is an integer, as Int64.
func (e *Elements) Int(v *int) {
	switch {
	case e.err != nil:
	case !e.unpacking:
		e.buf = tuple.AppendInt(e.buf, int64(*v))
	default:
		n := e.nextInt()
		if *v = int(n); int64(*v) != n {
			e.err = errOther
		}
	}
}

func (e *Elements) nextInt() int64 {
	v, rest, err := tuple.NextInt(e.buf)
	if err != nil {
		e.err = errOther
		return 0
	}
	e.buf = rest
	return v
}

// Uint64 is an integer that is not negative.
func (e *Elements) Uint64(v *uint64) {
	switch {
	case e.err != nil:
	case !e.unpacking:
		e.buf = tuple.AppendUint(e.buf, *v)
	default:
		switch n := e.next().(type) {
		case int64:
			if *v = uint64(n); n < 0 {
				e.err = errOther
			}
		case uint64:
			*v = n
		default:
			e.err = errOther
		}
	}
}

// Time is a time as an integer of Unix milliseconds; what is finer is cut off. An
// unpacked time is in UTC.
func (e *Elements) Time(v *time.Time) {
	switch {
	case e.err != nil:
	case e.unpacking:
		*v = time.UnixMilli(e.nextInt()).UTC()
	default:
		e.buf = tuple.AppendInt(e.buf, v.UnixMilli())
	}
}

// String is a text in UTF-8; another one can't be packed (tuple.ErrUnsupported).
func (e *Elements) String(v *string) {
	switch {
	case e.err != nil:
	case e.unpacking:
		take(e, v)
	case !utf8.ValidString(*v):
		e.err = fmt.Errorf("%w: %.80q is not valid UTF-8", tuple.ErrUnsupported, *v)
	default:
		e.buf = tuple.AppendString(e.buf, *v)
	}
}

// Bytes is a byte string. Unpacked, it is a slice of its own, never nil.
func (e *Elements) Bytes(v *[]byte) {
	switch {
	case e.err != nil:
	case !e.unpacking:
		e.buf = tuple.AppendBytes(e.buf, *v)
	default:
		b, rest, err := tuple.NextBytes(nil, e.buf)
		if err != nil {
			e.err = errOther
			return
		}
		*v, e.buf = b, rest
	}
}

// Fixed is a byte string as long as v. Unpacked, it overwrites the bytes of v; one of
// another length is the key of another type.
func (e *Elements) Fixed(v []byte) {
	switch {
	case e.err != nil:
	case !e.unpacking:
		e.buf = tuple.AppendBytes(e.buf, v)
	default:
		b, rest, err := tuple.NextBytes(e.constant[:0], e.buf)
		if err != nil || len(b) != len(v) {
			e.err = errOther
			return
		}
		copy(v, b)
		e.constant, e.buf = b, rest
	}
}

// Bool is a truth value.
func (e *Elements) Bool(v *bool) {
	switch {
	case e.err != nil:
	case e.unpacking:
		take(e, v)
	default:
		e.buf = tuple.AppendBool(e.buf, *v)
	}
}

// Float64 is a number; see tuple.AppendFloat64 for the order.
func (e *Elements) Float64(v *float64) {
	switch {
	case e.err != nil:
	case e.unpacking:
		take(e, v)
	default:
		e.buf = tuple.AppendFloat64(e.buf, *v)
	}
}

// UUID is a UUID.
func (e *Elements) UUID(v *tuple.UUID) {
	switch {
	case e.err != nil:
	case e.unpacking:
		take(e, v)
	default:
		e.buf = tuple.AppendUUID(e.buf, *v)
	}
}

// ID is the id of an actor: one element of a UUID and a label, see tuple.NewID.
func (e *Elements) ID(uuid *tuple.UUID, label *uint16) {
	switch {
	case e.err != nil:
	case !e.unpacking:
		e.buf = tuple.AppendID(e.buf, *uuid, *label)
	default:
		user, ok := e.next().(tuple.User)
		if ok {
			*uuid, *label, ok = user.ID()
		}
		if !ok {
			e.err = errOther
		}
	}
}

// Versionstamp is a place in the order of commits. An incomplete one
// (tuple.IncompleteVersionstamp) is filled in when the transaction commits: Put
// stores under such a key, and nothing else can be done with it.
func (e *Elements) Versionstamp(v *tuple.Versionstamp) {
	switch {
	case e.err != nil:
	case e.unpacking:
		take(e, v)
	default:
		if v.Incomplete() {
			e.stamps, e.stampAt = e.stamps+1, len(e.buf)+1
		}
		e.buf = tuple.AppendVersionstamp(e.buf, *v)
	}
}

// Element is an element of any kind. Unpacked, an integer is an int64 if it fits;
// see tuple.Element. An incomplete versionstamp in it stays as it is.
func (e *Elements) Element(v *tuple.Element) {
	switch {
	case e.err != nil:
	case e.unpacking:
		*v = e.next()
	default:
		e.buf, e.err = tuple.Append(e.buf, tuple.Tuple{*v})
	}
}

// More is for elements at the end of a key that may be missing. When the key is
// packed it returns has; when it is unpacked, whether there is a further element.
// See Optional.
func (e *Elements) More(has bool) bool {
	switch {
	case e.err != nil:
		return false
	case e.unpacking:
		return len(e.buf) > 0
	}
	return has
}

// Require says that what went before is that of a key only if ok: unpacked, it is the
// key of another type else, and it can't be packed (tuple.ErrUnsupported).
func (e *Elements) Require(ok bool) {
	switch {
	case e.err != nil || ok:
	case e.unpacking:
		e.err = errOther
	default:
		e.err = fmt.Errorf("%w: it can't be part of such a key", tuple.ErrUnsupported)
	}
}

// Optional is an element at the end of a key that is missing when *v is nil, as it
// is in the keys of many a subspace:
//
//	keys.Optional(e, &k.Created, e.Int64)
//
// Only other optional elements may follow it.
func Optional[T any](e *Elements, v **T, element func(*T)) {
	if !e.More(*v != nil) {
		if e.unpacking {
			*v = nil
		}
		return
	}
	if e.unpacking {
		*v = new(T)
	}
	element(*v)
}

// next takes the next element of a key that is unpacked.
func (e *Elements) next() tuple.Element {
	el, rest, err := tuple.Next(e.buf)
	if err != nil {
		e.err = errOther
		return nil
	}
	e.buf = rest
	return el
}

// take stores the next element of a key that is unpacked into v, if it is a T.
func take[T any](e *Elements, v *T) {
	el, ok := e.next().(T)
	if !ok {
		e.err = errOther
		return
	}
	*v = el
}

// packed returns the key that was packed. A key with several incomplete
// versionstamps is of no use to anybody.
func (e *Elements) packed() ([]byte, error) {
	switch {
	case e.err != nil:
		return nil, e.err
	case e.stamps > 1:
		return nil, fmt.Errorf("%w: key with %d incomplete versionstamps", tuple.ErrUnsupported, e.stamps)
	case e.stamps == 1 && e.stampAt > math.MaxInt32:
		return nil, fmt.Errorf("%w: versionstamp at offset %d", tuple.ErrUnsupported, e.stampAt)
	}
	return e.buf, nil
}
