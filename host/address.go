package host

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
)

// An Address names an actor: its type, and a key that is the actor's own among those of
// its type.
type Address struct {
	Type, Key string
}

// ParseAddress reads what String wrote: everything before the first slash is the type.
func ParseAddress(text string) (Address, error) {
	kind, key, _ := strings.Cut(text, "/")
	a := Address{kind, key}
	_, err := a.check()
	return a, err
}

// String returns type and key with a slash between them. It is the name under which the
// actor is recorded in the store (actorstore.Store.Names), and from which its id is
// derived.
func (a Address) String() string { return a.Type + "/" + a.Key }

// check returns the text of a, and what is wrong with it.
func (a Address) check() (name string, err error) {
	name = a.String()
	switch {
	case a.Type == "" || a.Key == "" || strings.Contains(a.Type, "/") || !utf8.ValidString(name):
		return name, fmt.Errorf("%w: %.80q", ErrAddress, name)
	case len(name) > actorstore.MaxName:
		return name, fmt.Errorf("%w: %d bytes, limit %d", ErrAddress, len(name), actorstore.MaxName)
	}
	return name, nil
}
