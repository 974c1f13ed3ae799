package layout

import (
	"encoding/binary"
	"fmt"
)

// An ID is an actorstore.ID, which has the same fields: they convert to each other.
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

// String returns the text of id: 30 digits in base 36 (0-9, a-z) of the bytes
// 01 ‖ UUID ‖ label, read as a little-endian number, the lowest digit first.
func (id ID) String() string {
	var n [idBytes]byte
	n[0] = idVersion
	copy(n[1:], id.UUID[:])
	binary.BigEndian.PutUint16(n[17:], id.Label)
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

// ParseID returns the ID whose String is text. The error says what is wrong with any
// other text, one with capital letters too; it wraps nothing.
func ParseID(text string) (ID, error) {
	if len(text) != idText {
		return ID{}, fmt.Errorf("%d characters, an id has %d", len(text), idText)
	}
	var n [idBytes]byte
	for i := len(text) - 1; i >= 0; i-- {
		carry, ok := idDigit(text[i])
		if !ok {
			return ID{}, fmt.Errorf("character %q", text[i])
		}
		for j := range n {
			carry += int(n[j]) * 36
			n[j], carry = byte(carry), carry>>8
		}
		if carry != 0 {
			return ID{}, fmt.Errorf("the number is too large")
		}
	}
	if n[0] != idVersion {
		return ID{}, fmt.Errorf("version %d", n[0])
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
