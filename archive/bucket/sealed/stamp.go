package sealed

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"filippo.io/age"
)

// The stamp is a stanza in the header of a sealed object, the last one:
//
//	-> github.com/greenroomdb/greenroom/object NAME
//	SHA-256 of "NAME\n" and, for each stanza before it, "%q\n%x\n": a list of its type and arguments, and its body
//
// Existing stamps will not change. Other programs pass over the stanza, as the format wants it. The header has a MAC of its own under the
// key of the file, so only a writer that knows this key can have written the name. The name could stand in the plain text instead: then
// it would shift every offset, and "age -d" would give out more than the object.
//
// The hash tells a header that was damaged from one that is for other recipients. To age the two are one: no identity matches. It has no key, so an
// attacker can compute it.
const stampType = "github.com/greenroomdb/greenroom/object"

// stamp returns the stamp of an object, whose header has the other stanzas before it.
func stamp(name string, before []*age.Stanza) *age.Stanza {
	text := []byte(name + "\n")
	for _, s := range before {
		text = fmt.Appendf(text, "%q\n%x\n", slices.Concat([]string{s.Type}, s.Args), s.Body)
	}
	sum := sha256.Sum256(text)
	return &age.Stanza{Type: stampType, Args: []string{name}, Body: sum[:]}
}

// stamped returns the name in the stamp of a header, and whether there is a stamp that fits the stanzas before it.
func stamped(header []*age.Stanza) (name string, ok bool) {
	if len(header) == 0 {
		return "", false
	}
	before, last := header[:len(header)-1], header[len(header)-1]
	if last.Type != stampType || len(last.Args) != 1 {
		return "", false
	}
	name = last.Args[0]
	return name, bytes.Equal(last.Body, stamp(name, before).Body)
}

// all is a recipient for all of some, and for the stamp. It keeps the key of the one file that it is used for.
type all struct {
	recipients []age.Recipient
	name       string
	fileKey    []byte
}

// Wrap returns the stanzas of all recipients, and the stamp.
func (a *all) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	a.fileKey = bytes.Clone(fileKey)
	var header []*age.Stanza
	for _, r := range a.recipients {
		ss, err := r.Wrap(fileKey)
		if err != nil {
			return nil, err
		}
		header = append(header, ss...)
	}
	return append(header, stamp(a.name, header)), nil
}

// anyOf is an identity that is any of some. It keeps the header that it saw.
type anyOf struct {
	identities []age.Identity
	header     []*age.Stanza
}

// Unwrap returns the key of the file if one of the identities has it.
func (a *anyOf) Unwrap(header []*age.Stanza) ([]byte, error) {
	a.header = header
	for _, id := range a.identities {
		if key, err := id.Unwrap(header); !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}
