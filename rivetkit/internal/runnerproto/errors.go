package runnerproto

import "errors"

var (
	// ErrMalformed means that bytes are not a message of the protocol, or that a message can't be written
	// as one. The methods of Direction return it with the name of the message, where in it, and why.
	ErrMalformed = errors.New("runnerproto: malformed message")

	// ErrVersion means that a version of the protocol is unknown, or that a message isn't part of it.
	// ParseVersion and the methods of Direction return it.
	ErrVersion = errors.New("runnerproto: unsupported version")
)
