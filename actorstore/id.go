package actorstore

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// An ID names an actor: a UUID, and a label that says where the actor was made
// (0 when that means nothing). IDs are comparable. The zero ID names no actor.
type ID struct {
	UUID  [16]byte
	Label uint16
}

const (
	idDigits  = "0123456789abcdefghijklmnopqrstuvwxyz"
	idText    = 30 // digits: 36^30 is the first such power above 2^152
	idBytes   = 1 + 16 + 2
	idVersion = 1 // the first byte: how the rest is laid out
)

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

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// number returns id as the number that its text shows, little-endian.
func (id ID) number() [idBytes]byte {
	var n [idBytes]byte
	n[0] = idVersion
	copy(n[1:], id.UUID[:])
	binary.BigEndian.PutUint16(n[17:], id.Label)
	return n
}

// String returns the text of id: 30 digits in base 36 (0-9, a-z) of the bytes
// 01 ‖ UUID ‖ label, read as a little-endian number, the lowest digit first.
func (id ID) String() string {
	n := id.number()
	var text [idText]byte
	for i := range text {
		rem := 0
		for j := len(n) - 1; j >= 0; j-- {
			v := rem<<8 | int(n[j])
			n[j], rem = byte(v/36), v%36
		}
		text[i] = idDigits[rem]
	}
	return string(text[:])
}

// ParseID returns the ID whose String is text. Every other text, one with capital
// letters too, is ErrID.
func ParseID(text string) (ID, error) {
	if len(text) != idText {
		return ID{}, fmt.Errorf("%w: %d characters, an id has %d", ErrID, len(text), idText)
	}
	var n [idBytes]byte
	for i := len(text) - 1; i >= 0; i-- {
		carry, ok := idDigit(text[i])
		if !ok {
			return ID{}, fmt.Errorf("%w: character %q", ErrID, text[i])
		}
		for j := range n {
			carry += int(n[j]) * 36
			n[j], carry = byte(carry), carry>>8
		}
		if carry != 0 {
			return ID{}, fmt.Errorf("%w: the number is too large", ErrID)
		}
	}
	if n[0] != idVersion {
		return ID{}, fmt.Errorf("%w: version %d", ErrID, n[0])
	}
	return ID{[16]byte(n[1:17]), binary.BigEndian.Uint16(n[17:])}, nil
}

func idDigit(c byte) (v int, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0'), true
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 10, true
	}
	return 0, false
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
