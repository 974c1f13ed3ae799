package conn

import (
	"crypto/rand"
	"encoding/hex"
)

// An ID names a connection for ever: the text of a random UUID (version 4) where this
// package made it. A record that was written by others may have any text.
type ID string

// newID returns a random ID (https://www.rfc-editor.org/rfc/rfc9562#section-5.4).
func newID() ID {
	var u [16]byte
	rand.Read(u[:]) // never fails: it ends the program instead
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], u[:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:], u[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return ID(text[:])
}

// A GatewayID names the gateway that holds the client's end of a connection.
type GatewayID [4]byte

// A RequestID names a connection at its gateway.
type RequestID [4]byte

// String returns 8 hexadecimal digits.
func (g GatewayID) String() string { return hex.EncodeToString(g[:]) }

// String returns 8 hexadecimal digits.
func (r RequestID) String() string { return hex.EncodeToString(r[:]) }

// An Index numbers the messages of a connection in one direction. After 65535 comes 0.
type Index uint16
