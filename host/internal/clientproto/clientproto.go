// Package clientproto encodes and decodes what RivetKit's published clients, versions 2.0 to
// 2.3, and a server say to each other: the key of an actor, the bodies of calls over HTTP, and
// the messages on a WebSocket. It has both directions of each, so that a test can be the
// client. It serves nothing: routes, headers and the closing of sockets are the server's.
//
// There are three encodings. In BARE, a message is behind two bytes of version, and its fields
// are these, in this order:
//
//	HTTPActionRequest      args data
//	HTTPActionResponse     output data
//	HTTPQueueSendRequest   body data, name optional<str>, wait optional<bool>, timeout optional<u64>
//	HTTPQueueSendResponse  status str, response optional<data>
//	HTTPResponseError      group str, code str, message str, metadata optional<data>
//
//	ToClient  union { 0 Init: actorId str, connectionId str
//	                  1 Error: group str, code str, message str, metadata optional<data>, actionId optional<uint>
//	                  2 ActionResponse: id uint, output data
//	                  3 Event: name str, args data }
//	ToServer  union { 0 ActionRequest: id uint, name str, args data
//	                  1 SubscriptionRequest: eventName str, subscribe bool }
//
// In CBOR and JSON, a body over HTTP is an object with the fields as its members, and a message
// of a socket is {"body":{"tag":"Init","val":{…}}}. Neither has a version.
//
// Every data is a value in the CBOR of package internal/cbor, and args is an array of them. In
// the Go types a value is its CBOR; see FromJSON for its form in JSON, and Unescape for what a
// client of version 4 does to it.
//
// Decoding is strict: all bytes must be used, what a length claims is believed only as far as
// the input goes, and every value must be well-formed. The memory that decoding takes is at
// most proportional to the input.
package clientproto

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// Errors of this package. However long the input, their texts aren't.
var (
	// ErrMalformed: bytes are not a message, a value or a key of the expected form. The error
	// says which, where, and what is wrong. Every parser returns it, and so does an Append
	// that is given a value which isn't CBOR.
	ErrMalformed = errors.New("clientproto: malformed")
	// ErrVersion: a message has a version that isn't known, or that doesn't have this message.
	ErrVersion = errors.New("clientproto: unknown version")
)

// maxSize bounds a message in bytes. Larger ones are refused in every encoding.
const maxSize = bare.MaxSize

// An Encoding is the form of bodies and messages. A client chooses one.
type Encoding uint8

// The encodings. The zero value is that of a client which doesn't name one.
const (
	JSON Encoding = iota
	CBOR
	Bare
)

var encodings = [...]string{JSON: "json", CBOR: "cbor", Bare: "bare"}

// String returns the name that a client sends.
func (e Encoding) String() string {
	if int(e) < len(encodings) {
		return encodings[e]
	}
	return fmt.Sprintf("Encoding(%d)", uint8(e))
}

// ParseEncoding returns the encoding of a name. An unknown name is ErrMalformed.
func ParseEncoding(name string) (Encoding, error) {
	for e, n := range encodings {
		if n == name {
			return Encoding(e), nil
		}
	}
	return 0, fmt.Errorf("%w encoding %.32q: known are bare, cbor and json", ErrMalformed, name)
}

// A Version is one of the protocol. Only BARE carries it: in the other encodings it is 0.
//
// A server reads versions 1 to 4 of a client. It answers in the client's version, but never
// above 3, which all clients of version 4 read. Before a client has sent anything, its version
// is 0: the server writes 2 then, which clients of all versions above read too.
type Version uint16

const (
	firstVersion  Version = 1
	lastVersion   Version = 4
	unknownPeer   Version = 2 // what is written to a client that has sent nothing
	initVersion   Version = 2 // the first in which Init is as it is here
	queueVersion  Version = 3 // the first that has queues
	lastAnswer    Version = 3 // the last in which a server writes
	escapeVersion Version = 4 // the first whose clients escape values
)

// answer returns the version in which a server writes to a client of version v.
func (v Version) answer() Version {
	if v == 0 {
		return unknownPeer
	}
	return min(v, lastAnswer)
}

// between returns ErrVersion unless v is a version from first to last. It names the message.
func (v Version) between(first, last Version, message string) error {
	switch {
	case first <= v && v <= last:
		return nil
	case first == last:
		return fmt.Errorf("%w %d of %s: known is %d", ErrVersion, v, message, first)
	}
	return fmt.Errorf("%w %d of %s: known are %d to %d", ErrVersion, v, message, first, last)
}

// An ActionID is the number that a client gives to an action on a socket. The answer repeats
// it. The first is 0.
type ActionID uint64

// malformed returns ErrMalformed for what is wrong with a message or a value. Packages below
// begin their texts with a name and the same word, which aren't repeated.
func malformed(what string, err error) error {
	text := err.Error()
	for _, prefix := range []string{"bare: ", "cbor: ", "malformed", ": ", " "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return fmt.Errorf("%w %s: %s", ErrMalformed, what, text)
}
