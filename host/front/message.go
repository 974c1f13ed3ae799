package front

import (
	"slices"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/conn"
)

// The subprotocols: the form of the messages on a socket. Without one it is JSON.
const (
	protocolJSON = "greenroom.v1.json"
	protocolCBOR = "greenroom.v1.cbor"
)

// What a client sends, by request.Type.
const (
	typeConnect     = "connect"     // makes a connection: params, hibernate
	typeResume      = "resume"      // takes one up again: conn, token
	typeCall        = "call"        // id, action, args, idempotencyKey
	typeSubscribe   = "subscribe"   // id, event
	typeUnsubscribe = "unsubscribe" // id, event

	typeMoved = "moved" // no client sends it: the actor is somewhere else
)

// What a client gets, by response.Type.
const (
	typeConnected = "connected" // conn and, of one that hibernates, token
	typeResult    = "result"    // id, body, replayed
	typeError     = "error"     // id of a request, else 0; code, message
	typeEvent     = "event"     // event, body
)

// A request is a message of a client: an object, of which each type has some members.
type request struct {
	Type      string  `json:"type"`
	ID        uint64  `json:"id,omitempty"` // the client's own, repeated in the answer
	Action    string  `json:"action,omitempty"`
	Args      value   `json:"args,omitempty"`
	Event     string  `json:"event,omitempty"`
	Params    value   `json:"params,omitempty"`
	Hibernate *bool   `json:"hibernate,omitempty"` // nil means true
	Conn      conn.ID `json:"conn,omitempty"`
	Token     string  `json:"token,omitempty"`

	IdempotencyKey *string `json:"idempotencyKey,omitempty"` // nil for none

	Caller []byte `json:"caller,omitempty"` // on a link: the caller of the request, in JSON; nil if nothing is said about it
}

// A response is a message to a client.
type response struct {
	Type    string  `json:"type"`
	ID      uint64  `json:"id,omitempty"`
	Body    value   `json:"body,omitempty"`
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
	closeBad     websocket.StatusCode = 4000 // what the client sent can't be understood
	closeGone    websocket.StatusCode = 4001 // the actor has ended the connection
	closeSlow    websocket.StatusCode = 4002 // the client doesn't read; it may come back
	closeSilent  websocket.StatusCode = 4003 // the client has asked for nothing for too long
	closeRefused websocket.StatusCode = 4004 // not connected: an error message says why
)

// protocols returns the form of a socket's messages, and what is chosen of what the client
// offers: nothing if it offers nothing.
func chooseProtocol(offered []string) (as media, chosen []string, err error) {
	offered = slices.DeleteFunc(offered, func(p string) bool {
		return len(p) > len(bearerProtocol) && p[:len(bearerProtocol)] == bearerProtocol
	})
	for _, p := range offered {
		switch p {
		case protocolJSON:
			return mediaJSON, []string{p}, nil
		case protocolCBOR:
			return mediaCBOR, []string{p}, nil
		}
	}
	if len(offered) > 0 {
		return 0, nil, errProtocol
	}
	return mediaJSON, nil, nil
}

// frame returns the type of frames that messages of a form are in.
func (m media) frame() websocket.MessageType {
	if m == mediaCBOR {
		return websocket.MessageBinary
	}
	return websocket.MessageText
}
