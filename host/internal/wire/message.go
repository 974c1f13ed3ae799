// Package wire has the messages of a socket, as a front and its clients write them in JSON or CBOR.
package wire

import (
	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/conn"
)

// The subprotocols: the form of the messages on a socket. Without one it is JSON.
const (
	ProtocolJSON = "greenroom.v1.json"
	ProtocolCBOR = "greenroom.v1.cbor"
)

// What a client sends, by Request.Type.
const (
	TypeConnect     = "connect"     // makes a connection: params, hibernate
	TypeResume      = "resume"      // takes one up again: conn, token
	TypeCall        = "call"        // id, action, args, idempotencyKey
	TypeSubscribe   = "subscribe"   // id, event
	TypeUnsubscribe = "unsubscribe" // id, event

	TypeMoved = "moved" // no client sends it: the actor is somewhere else
)

// What a client gets, by Response.Type.
const (
	TypeConnected = "connected" // conn and, of one that hibernates, token
	TypeResult    = "result"    // id, body, replayed
	TypeError     = "error"     // id of a request, else 0; code, message
	TypeEvent     = "event"     // event, body
)

// A Request is a message of a client: an object, of which each type has some members.
type Request struct {
	Type      string  `json:"type"`
	ID        uint64  `json:"id,omitempty"` // the client's own, repeated in the answer
	Action    string  `json:"action,omitempty"`
	Args      Value   `json:"args,omitempty"`
	Event     string  `json:"event,omitempty"`
	Params    Value   `json:"params,omitempty"`
	Hibernate *bool   `json:"hibernate,omitempty"` // nil means true
	Conn      conn.ID `json:"conn,omitempty"`
	Token     string  `json:"token,omitempty"`

	IdempotencyKey *string `json:"idempotencyKey,omitempty"` // nil for none

	Caller []byte `json:"caller,omitempty"` // on a link: the caller of the request, in JSON; nil if nothing is said about it
}

// A Response is a message to a client.
type Response struct {
	Type    string  `json:"type"`
	ID      uint64  `json:"id,omitempty"`
	Body    Value   `json:"body,omitempty"`
	Event   string  `json:"event,omitempty"`
	Code    string  `json:"code,omitempty"`
	Message string  `json:"message,omitempty"`
	Conn    conn.ID `json:"conn,omitempty"`
	Token   string  `json:"token,omitempty"`

	Fault []byte `json:"fault,omitempty"` // on a link: the error, as host.ToldError takes it

	Replayed bool `json:"replayed,omitempty"` // the result was stored by a call before
}

// Codes with which sockets are closed, besides 1000 to 1015
// (https://www.rfc-editor.org/rfc/rfc6455#section-7.4).
const (
	CloseBad     websocket.StatusCode = 4000 // what the client sent can't be understood
	CloseGone    websocket.StatusCode = 4001 // the actor has ended the connection
	CloseSlow    websocket.StatusCode = 4002 // the client doesn't read; it may come back
	CloseSilent  websocket.StatusCode = 4003 // the client has asked for nothing for too long
	CloseRefused websocket.StatusCode = 4004 // not connected: an error message says why
)
