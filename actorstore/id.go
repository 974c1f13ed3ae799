package actorstore

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// An ID names an actor: a UUID, and a label that says where the actor was made
// (0 when that means nothing). IDs are comparable. The zero ID names no actor.
type ID struct {
	UUID  [16]byte
	Label uint16
}

// nameSpace is the namespace of the UUIDs that IDFromName makes. It will not
// change: names would lead to other actors.
var nameSpace = uuid.MustParse("6b1d4c0e-935a-4f27-a841-7e02d963b518")

// NewID returns a random ID: a UUID of version 4 and the label 0.
func NewID() ID { return ID{UUID: uuid.New()} }

// IDFromName returns the ID that belongs to a name: a UUID of version 5, of a
// namespace that is fixed for ever, and the label 0.
//
// https://www.rfc-editor.org/rfc/rfc9562#section-5.5
func IDFromName(name string) ID { return ID{UUID: uuid.NewSHA1(nameSpace, []byte(name))} }

// Compare returns -1, 0 or 1 as id stands before, at or behind other in the order of their bytes, UUIDs first.
func (id ID) Compare(other ID) int {
	return cmp.Or(bytes.Compare(id.UUID[:], other.UUID[:]), cmp.Compare(id.Label, other.Label))
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the text of id: 30 digits in base 36 (0-9, a-z) of the bytes
// 01 ‖ UUID ‖ label, read as a little-endian number, the lowest digit first.
func (id ID) String() string { return layout.ID(id).String() }

// ParseID returns the ID whose String is text. Every other text, one with capital
// letters too, is ErrID.
func ParseID(text string) (ID, error) {
	id, err := layout.ParseID(text)
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrID, err)
	}
	return ID(id), nil
}

// MarshalText returns String, for JSON and the like.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := ParseID(string(text))
	if err == nil {
		*id = v
	}
	return err
}

// A HostID identifies a host: a Store for as long as it keeps its lease. It is random, and never
// used again.
type HostID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id HostID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id is the zero HostID, which no host has.
func (id HostID) IsZero() bool { return id == HostID{} }
