package cbor

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Errors of this package. Others wrap what github.com/fxamacker/cbor says. However long
// the input, their texts aren't: what is quoted of it is cut.
var (
	// errMalformed: bytes are not one well-formed value of the profile.
	errMalformed = errors.New("cbor: malformed")
	// ErrUnsupported: a value can't be written in the profile. It comes as a
	// *ValueError where the place in the value is known.
	ErrUnsupported = errors.New("cbor: value can't be stored")
)

// A ValueError says which part of a value can't be stored. It wraps ErrUnsupported.
type ValueError struct {
	Path string // as in JavaScript, such as order.items[3].price; empty for the value itself
	What string // what is there
}

// Error names the place and what is there.
func (e *ValueError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v: %s", ErrUnsupported, e.What)
	}
	return fmt.Sprintf("%v: %s at %s", ErrUnsupported, e.What, e.Path)
}

// in returns the error of an array whose element i the value is.
func (e *ValueError) in(i int) *ValueError {
	p := fmt.Sprintf("[%d]", i)
	if e.Path != "" && e.Path[0] != '[' {
		p += "."
	}
	return &ValueError{clip(p + e.Path), e.What}
}

// Unwrap returns ErrUnsupported.
func (e *ValueError) Unwrap() error { return ErrUnsupported }

// maxText bounds, in bytes, what an error quotes of the input or of what is below.
const maxText = 512

// clip cuts a text that may hold a piece of the input.
func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// A bare is what github.com/fxamacker/cbor says about input, without its prefix, which is
// ours, too. It may quote a whole key or text of the input.
type bare struct{ error }

func (e bare) Error() string { return clip(strings.TrimPrefix(e.error.Error(), "cbor: ")) }

func (e bare) Unwrap() error { return e.error }

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

// keyName is the name of a member in a path.
func keyName(key reflect.Value) string {
	if key.Kind() == reflect.Interface {
		key = key.Elem()
	}
	if key.IsValid() && key.Kind() == reflect.String {
		return key.String()
	}
	return "?"
}
