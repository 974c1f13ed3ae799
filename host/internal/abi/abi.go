// Package abi is what a host and a WebAssembly module say to each other, version 1: the
// names of the functions, and the values that go through them. docs/wasm.md is its
// description for other languages.
//
// Values are CBOR in the profile of package internal/cbor. This package has neither end:
// host/wasm is the one, host/guest the other.
package abi

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// What a module imports and exports.
const (
	// Version is what a module's VersionExport returns.
	Version = 1
	// Module is the name of the module that has the host's functions.
	Module = "greenroom_v1"

	VersionExport  = "greenroom_abi_version" // () -> i32
	DescribeExport = "greenroom_describe"    // ()
	TurnExport     = "greenroom_turn"        // (length of the event i32)
)

// Kinds of events, which are also the names of hooks in a Description.
const (
	KindAction     = "action"
	KindCreate     = "create"
	KindWake       = "wake"
	KindSleep      = "sleep"
	KindDestroy    = "destroy"
	KindConnect    = "connect"
	KindDisconnect = "disconnect"
	KindSubscribe  = "subscribe"
	KindAlarm      = "alarm"
	KindMessage    = "message"
)

// Raw is a value in CBOR on its way; nil is undefined. Each end has its own type for those that its users see.
type Raw []byte

// undefined is the CBOR of it.
var undefined = []byte{0xf7}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (r Raw) MarshalCBOR() ([]byte, error) {
	if len(r) == 0 {
		return undefined, nil
	}
	return r, nil
}

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor. It keeps nothing
// of b.
func (r *Raw) UnmarshalCBOR(b []byte) error {
	*r = cbor.Keep(b)
	return nil
}

// Encode returns v in CBOR; a Raw is returned as it is.
func Encode(v any) (Raw, error) {
	if r, ok := v.(Raw); ok {
		return r, nil
	}
	return cbor.Marshal(v)
}

// Decode decodes r into what v points to; undefined and null leave it as it is.
func (r Raw) Decode(v any) error {
	if len(r) == 0 {
		return nil
	}
	if to, ok := v.(*Raw); ok {
		*to = append(Raw{}, r...)
		return cbor.Wellformed(r)
	}
	return cbor.Unmarshal(r, v)
}

// An Int is a number that may be beyond what the profile writes as an integer: it comes as
// a float then.
type Int int64

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (n *Int) UnmarshalCBOR(b []byte) error { return cbor.Unmarshal(b, (*int64)(n)) }

// Marshal returns v, a type of this package or a Raw, in CBOR. The Raws in it may be as deep as
// Encode makes them.
func Marshal(v any) (Raw, error) {
	if r, ok := v.(Raw); ok {
		return r, nil
	}
	return cbor.Wrap(v)
}

// Unmarshal decodes data into what v points to, a type of this package. Unlike Raw.Decode
// it leaves the values in it, which are Raws, as they are.
func Unmarshal(data []byte, v any) error {
	if err := cbor.UnmarshalExact(data, v); err != nil {
		return fmt.Errorf("abi: %w", err)
	}
	return nil
}

// A Fault is an error on its way.
type Fault struct {
	Code      string `cbor:"code"`
	Message   string `cbor:"message"`
	Permanent bool   `cbor:"permanent,omitempty"` // another attempt doesn't help
}

// A Description is what a module says about itself.
type Description struct {
	Actions  []string `cbor:"actions"`
	Other    bool     `cbor:"other"`    // takes other actions, too
	Hooks    []string `cbor:"hooks"`    // kinds of events, beside actions, that it wants
	Messages []string `cbor:"messages"` // names of messages that it wants; none means any
}

// An Event is why a module is called.
type Event struct {
	Kind    string     `cbor:"kind"`
	Name    string     `cbor:"name,omitempty"`    // of an action, or of the events of a subscription
	Args    Raw        `cbor:"args,omitempty"`    // of an action
	Conn    string     `cbor:"conn,omitempty"`    // of what came through a connection, or is about one
	Reason  string     `cbor:"reason,omitempty"`  // of a disconnect
	Alarm   *Scheduled `cbor:"alarm,omitempty"`   // of an alarm
	Message *Message   `cbor:"message,omitempty"` // of a message
	Caller  *Caller    `cbor:"caller,omitempty"`  // that asked for the turn; nil if nothing is said about it
}

// A Caller is a party that calls actors.
type Caller struct {
	ID     string `cbor:"id"`
	Claims string `cbor:"claims"` // in JSON, "" for none
}

// A Self is whose turn it is.
type Self struct {
	Type string `cbor:"type"`
	Key  string `cbor:"key"`
	ID   string `cbor:"id"`
}

// A Record is a line for the log. Level is one of slog's.
type Record struct {
	_       struct{}       `cbor:",toarray"`
	Level   int            //
	Message string         //
	Attrs   map[string]any // values that JSON has
}
