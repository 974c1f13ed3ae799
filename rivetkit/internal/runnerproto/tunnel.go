package runnerproto

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A TunnelID names one HTTP request or one WebSocket of a client: the gateway that took it, and its number there.
// The engine chooses both.
type TunnelID struct{ Gateway, Request [4]byte }

// String returns both parts in hexadecimal, with a slash between them.
func (id TunnelID) String() string { return fmt.Sprintf("%x/%x", id.Gateway, id.Request) }

func (id TunnelID) append(w *writer) {
	w.fixed(id.Gateway[:])
	w.fixed(id.Request[:])
}

func readTunnelID(r *bare.Reader) (id TunnelID) {
	copy(id.Gateway[:], r.Fixed(len(id.Gateway)))
	copy(id.Request[:], r.Fixed(len(id.Request)))
	return id
}

// A MessageID names one message of a request or a socket, in one direction.
type MessageID struct {
	Tunnel TunnelID
	// Index is 0 for the first message, then one more for each, and 0 again after 65535. A message that the engine sends
	// again keeps its index. A runner counts from 0 again after the actor has slept.
	Index uint16
}

func (id MessageID) append(w *writer) {
	id.Tunnel.append(w)
	w.u16(id.Index)
}

func readMessageID(r *bare.Reader) MessageID { return MessageID{readTunnelID(r), r.U16()} }

// A Header is a header of an HTTP request or response, with its name in lower case. A message has at most one header of
// a name. Messages keep the order of their headers.
type Header struct{ Name, Value string }

func (h Header) name() string { return h.Name }

func (h Header) append(w *writer) {
	w.str(h.Name)
	w.str(h.Value)
}

func appendHeaders(w *writer, list []Header) { appendMap(w, list, Header.name, Header.append) }

func readHeaders(r *bare.Reader) []Header {
	return readMap(r, Header.name, func(r *bare.Reader) Header { return Header{r.String(), r.String()} })
}

// A ToActor carries a part of a client's request, or a message of its socket, to an actor. The bytes in it alias
// what it was decoded from.
type ToActor struct {
	ID   MessageID
	Body ToActorBody
}

// A ToActorBody is one of RequestStart, RequestChunk, RequestAbort, SocketOpen, SocketMessage and ClientClose.
type ToActorBody interface{ toActor(w *writer) }

// RequestStart is an HTTP request.
type RequestStart struct {
	Actor   string // the actor's id
	Method  string
	Path    string // with the query
	Headers []Header
	Body    []byte // nil is left out, an empty one isn't
	Stream  bool   // RequestChunks follow, with the rest of the body
}

// RequestChunk is the next part of the body of a request.
type RequestChunk struct {
	Data   []byte
	Finish bool // it is the last one
}

// RequestAbort says that the client no longer waits for the response.
type RequestAbort struct{}

// SocketOpen says that a client has opened a WebSocket. The answer is SocketAccept, or ActorClose, which refuses it.
type SocketOpen struct {
	Actor   string // the actor's id
	Path    string // with the query
	Headers []Header
}

// SocketMessage is one message of a WebSocket, in either direction.
type SocketMessage struct {
	Data   []byte
	Binary bool // else Data is text, in UTF-8
}

// ClientClose says that the client has closed the WebSocket.
type ClientClose struct {
	Code   Optional[uint16] // a status code of WebSockets
	Reason Optional[string]
}

// A FromActor carries a part of an actor's response, or a message for a socket, to a client. The bytes in it alias what it
// was decoded from.
type FromActor struct {
	ID   MessageID
	Body FromActorBody
}

// A FromActorBody is one of ResponseStart, ResponseChunk, ResponseAbort, SocketAccept, SocketMessage, SocketAck
// and ActorClose.
type FromActorBody interface{ fromActor(w *writer) }

// ResponseStart is the answer to an HTTP request.
type ResponseStart struct {
	Status  uint16
	Headers []Header
	Body    []byte // nil is left out, an empty one isn't
	Stream  bool   // ResponseChunks follow, with the rest of the body
}

// ResponseChunk is the next part of the body of a response.
type ResponseChunk struct {
	Data   []byte
	Finish bool // it is the last one
}

// ResponseAbort says that the client gets no response, or not the rest of it.
type ResponseAbort struct{}

// SocketAccept answers SocketOpen.
type SocketAccept struct {
	CanHibernate bool // the WebSocket stays open while the actor sleeps
}

// SocketAck says that the actor has taken the messages of a WebSocket that can hibernate, up to the one with
// this index. The engine sends later ones again when the actor has slept.
type SocketAck struct{ Index uint16 }

// ActorClose says that the actor has closed the WebSocket, or has refused it.
type ActorClose struct {
	Code      Optional[uint16] // a status code of WebSockets
	Reason    Optional[string]
	Hibernate bool // the actor goes to sleep, and the client's end stays open
}
