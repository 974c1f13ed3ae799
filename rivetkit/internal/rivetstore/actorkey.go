package rivetstore

import (
	"errors"
	"strings"
)

// A Key is the key of an actor: a list of strings. As one string it is the parts with "/"
// between them. In a part, `\` is written `\\` and "/" is written `\/`. An empty part is `\0`, and
// the empty list is "/". So no key is an empty string, and different keys are different strings.
type Key []string

const (
	noParts   = "/"
	emptyPart = `\0`
)

var escapePart = strings.NewReplacer(`\`, `\\`, `/`, `\/`)

// String returns the key as one string.
func (k Key) String() string {
	if len(k) == 0 {
		return noParts
	}
	var b strings.Builder
	for i, part := range k {
		if i > 0 {
			b.WriteByte('/')
		}
		if part == "" {
			b.WriteString(emptyPart)
			continue
		}
		_, _ = escapePart.WriteString(&b, part) // a Builder takes everything
	}
	return b.String()
}

// ParseKey returns the key that s is. It also reads what String doesn't write: a `\` in
// front of any other byte, and an empty part without a mark. So a server that wants one string for
// one key must write the Key again. An empty s, and a `\` at the end, are errors.
func ParseKey(s string) (Key, error) {
	switch s {
	case "":
		return nil, errors.New("rivetstore: malformed key: it is empty")
	case noParts:
		return Key{}, nil
	}
	key := make(Key, 0, 1+strings.Count(s, "/"))
	part := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '/':
			key, part = append(key, string(part)), part[:0]
		case '\\':
			if i++; i == len(s) {
				return nil, errors.New("rivetstore: malformed key: it ends within an escape")
			}
			if s[i] != '0' {
				part = append(part, s[i])
			}
		default:
			part = append(part, s[i])
		}
	}
	return append(key, string(part)), nil
}
