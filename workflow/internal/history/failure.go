package history

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Failure is the error with which a workflow failed, as it is stored: CBOR of {name,
// message, stack?, metadata?}.
type Failure struct {
	Name    string // of the error's type
	Message string
	Stack   string // "" for none
	// Metadata are further properties of the error: text, numbers, truth values and null.
	// nil for none.
	Metadata cbor.Object
}

// Error returns the name and the message.
func (f *Failure) Error() string { return f.Name + ": " + f.Message }

// encode returns the stored form of f, and errInvalid if its metadata can't be stored.
func (f *Failure) encode() ([]byte, error) {
	o := cbor.Object{{Name: "name", Value: f.Name}, {Name: "message", Value: f.Message}}
	if f.Stack != "" {
		o = append(o, cbor.Member{Name: "stack", Value: f.Stack})
	}
	if f.Metadata != nil {
		o = append(o, cbor.Member{Name: "metadata", Value: f.Metadata})
	}
	b, err := cbor.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%w error: %w", errInvalid, err)
	}
	return b, nil
}

// clean returns f with texts that are UTF-8, and says what of its metadata can't be stored.
func (f *Failure) clean() (*Failure, error) {
	c := &Failure{Name: errorText(f.Name), Message: errorText(f.Message), Stack: errorText(f.Stack)}
	for _, m := range f.Metadata {
		switch v := m.Value.(type) {
		case string:
			m.Value = errorText(v)
		case nil, bool, int, int32, int64, uint, uint32, uint64, float32, float64:
		default:
			return nil, fmt.Errorf("%w error: metadata %q is a %T", errInvalid, m.Name, v)
		}
		m.Name = errorText(m.Name)
		c.Metadata = append(c.Metadata, m)
	}
	return c, nil
}

// parseFailure decodes the stored form of a Failure. Members of other names are
// skipped.
func parseFailure(b []byte) (*Failure, error) {
	v, err := cbor.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	o, _ := v.(cbor.Object)
	name, ok1 := o.Get("name").(string)
	message, ok2 := o.Get("message").(string)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%w: not an error with a name and a message", errCorrupt)
	}
	f := &Failure{Name: name, Message: message}
	f.Stack, _ = o.Get("stack").(string)
	f.Metadata, _ = o.Get("metadata").(cbor.Object)
	return f, nil
}

// errorText returns s with bytes that are no UTF-8 replaced, and cut if it is long: what
// people read must not make what is stored unreadable, or too large.
func errorText(s string) string { return cut(strings.ToValidUTF8(s, "\uFFFD")) }

// cut returns the beginning of a text that is too long.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len(cutMark)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cutMark
}

const cutMark = " … (cut)"
