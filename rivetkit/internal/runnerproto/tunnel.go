package runnerproto

import "fmt"

// A TunnelID names one HTTP request or one WebSocket of a client: the gateway that took it, and its number there.
// The engine chooses both.
type TunnelID struct{ Gateway, Request [4]byte }

// String returns both parts in hexadecimal, with a slash between them.
func (id TunnelID) String() string { return fmt.Sprintf("%x/%x", id.Gateway, id.Request) }

func (id *TunnelID) fields(c *codec) {
	c.fixed(id.Gateway[:])
	c.fixed(id.Request[:])
}

// A MessageID names one message of a request or a socket, in one direction.
type MessageID struct {
	Tunnel TunnelID
	// Index is 0 for the first message, then one more for each, and 0 again after 65535. A message that the engine sends
	// again keeps its index. A runner counts from 0 again after the actor has slept.
	Index uint16
}

func (id *MessageID) fields(c *codec) {
	id.Tunnel.fields(c)
	c.u16(&id.Index)
}

// A Header is a header of an HTTP request or response, with its name in lower case. A message has at most one header of
// a name. Messages keep the order of their headers.
type Header struct{ Name, Value string }

func (h *Header) name() string { return h.Name }

func (h *Header) fields(c *codec) {
	c.str(&h.Name)
	c.str(&h.Value)
}

// A ToActor carries a part of a client's request, or a message of its socket, to an actor. The bytes in it alias
// what it was decoded from.
type ToActor struct {
	ID   MessageID
	Body ToActorBody
}

// A ToActorBody is one of RequestStart, RequestChunk, RequestAbort, BodyCancel, ResponseWindow, SocketOpen, SocketMessage
// and ClientClose.
type ToActorBody interface{ toActor() }

// RequestStart is an HTTP request.
type RequestStart struct {
	Actor      string           // the actor's id
	Generation Optional[uint32] // of the actor; since Envoy8
	Method     string
	Path       string // with the query
	Headers    []Header
	Body       []byte // nil is left out, an empty one isn't
	Stream     bool   // RequestChunks follow, with the rest of the body
	// StreamResponse lets the actor send the response in parts. It exists since Envoy8.
	StreamResponse bool
}

// RequestChunk is the next part of the body of a request.
type RequestChunk struct {
	Data   []byte
	Finish bool // it is the last one
}

// RequestAbort says that the client no longer waits for the response.
type RequestAbort struct {
	Actor      Optional[string] // the actor's id; since Envoy8
	Generation Optional[uint32] // of the actor; since Envoy8
	Reason     AbortReason
}

// An AbortReason says why a request or a response was aborted, for the log. It exists since Envoy8: in older versions it isn't
// written, and read as the zero value.
type AbortReason struct {
	Kind   AbortKind
	Detail Optional[string]
}

// An AbortKind is the kind of an AbortReason.
type AbortKind uint8

// The kinds of reasons.
const (
	AbortUnknown AbortKind = iota
	AbortCancelled
	AbortHandlerError
	AbortInternalError
	abortKinds
)

// BodyCancel says, in either direction, that the rest of the body of a request isn't wanted or won't come. It exists since
// Envoy8.
type BodyCancel struct{}

// ResponseWindow says how much of the body of a response has been consumed, so that the actor may send more. It exists since
// Envoy8.
type ResponseWindow struct{ Bytes uint64 }

// RequestWindow says how much of the body of a request has been consumed, so that the engine may send more. It exists since
// Envoy8.
type RequestWindow struct{ Bytes uint64 }

// SocketOpen says that a client has opened a WebSocket. The answer is SocketAccept, or ActorClose, which refuses it.
type SocketOpen struct {
	Actor      string           // the actor's id
	Generation Optional[uint32] // of the actor; since Envoy8
	Path       string           // with the query
	Headers    []Header
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

// A FromActorBody is one of ResponseStart, ResponseChunk, ResponseAbort, RequestWindow, BodyCancel, SocketAccept,
// SocketMessage, SocketAck and ActorClose.
type FromActorBody interface{ fromActor() }

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
type ResponseAbort struct{ Reason AbortReason }

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

var toActorBodies = union[ToActorBody]{
	of[ToActorBody]((*RequestStart).fields),
	of[ToActorBody]((*RequestChunk).fields),
	of[ToActorBody]((*RequestAbort).fields),
	of[ToActorBody](nothing[BodyCancel]).from(Envoy8),
	of[ToActorBody]((*ResponseWindow).fields).from(Envoy8),
	of[ToActorBody]((*SocketOpen).fields),
	of[ToActorBody]((*SocketMessage).fields),
	of[ToActorBody]((*ClientClose).fields),
}

func (ToActor) toRunner()       {}
func (RequestStart) toActor()   {}
func (RequestChunk) toActor()   {}
func (RequestAbort) toActor()   {}
func (BodyCancel) toActor()     {}
func (ResponseWindow) toActor() {}
func (SocketOpen) toActor()     {}
func (SocketMessage) toActor()  {}
func (ClientClose) toActor()    {}

var fromActorBodies = union[FromActorBody]{
	of[FromActorBody]((*ResponseStart).fields),
	of[FromActorBody]((*ResponseChunk).fields),
	of[FromActorBody]((*ResponseAbort).fields),
	of[FromActorBody]((*RequestWindow).fields).from(Envoy8),
	of[FromActorBody](nothing[BodyCancel]).from(Envoy8),
	of[FromActorBody]((*SocketAccept).fields),
	of[FromActorBody]((*SocketMessage).fields),
	of[FromActorBody]((*SocketAck).fields),
	of[FromActorBody]((*ActorClose).fields),
}

func (FromActor) toEngine()      {}
func (ResponseStart) fromActor() {}
func (ResponseChunk) fromActor() {}
func (ResponseAbort) fromActor() {}
func (RequestWindow) fromActor() {}
func (BodyCancel) fromActor()    {}
func (SocketAccept) fromActor()  {}
func (SocketMessage) fromActor() {}
func (SocketAck) fromActor()     {}
func (ActorClose) fromActor()    {}

func (m *ToActor) fields(c *codec) {
	m.ID.fields(c)
	toActorBodies.value(c, &m.Body, "message without a body")
}

func (m *FromActor) fields(c *codec) {
	m.ID.fields(c)
	fromActorBodies.value(c, &m.Body, "message without a body")
}

func (s *RequestStart) fields(c *codec) {
	c.str(&s.Actor)
	generation(&s.Generation, c)
	c.str(&s.Method)
	c.str(&s.Path)
	pairs(c, &s.Headers, (*Header).name, (*Header).fields)
	c.body(&s.Body)
	c.bool(&s.Stream)
	if c.has(Envoy8, "StreamResponse", s.StreamResponse) {
		c.bool(&s.StreamResponse)
	}
}

// generation goes over the generation of an actor in a message of the tunnel.
func generation(p *Optional[uint32], c *codec) {
	if c.has(Envoy8, "the actor's generation", p.Set) {
		optional(c, p, (*codec).u32)
	}
}

func (b *RequestChunk) fields(c *codec) {
	c.data(&b.Data)
	c.bool(&b.Finish)
}

func (a *RequestAbort) fields(c *codec) {
	if c.has(Envoy8, "the actor of an abort", a.Actor.Set) {
		optional(c, &a.Actor, (*codec).str)
	}
	generation(&a.Generation, c)
	a.Reason.fields(c)
}

func (r *AbortReason) fields(c *codec) {
	if c.v >= Envoy8 {
		c.enum((*uint8)(&r.Kind), int(abortKinds), "kind of abort")
		optional(c, &r.Detail, (*codec).str)
	}
}

func (w *ResponseWindow) fields(c *codec) { c.u64(&w.Bytes) }
func (w *RequestWindow) fields(c *codec)  { c.u64(&w.Bytes) }
func (a *ResponseAbort) fields(c *codec)  { a.Reason.fields(c) }

func (o *SocketOpen) fields(c *codec) {
	c.str(&o.Actor)
	generation(&o.Generation, c)
	c.str(&o.Path)
	pairs(c, &o.Headers, (*Header).name, (*Header).fields)
}

func (m *SocketMessage) fields(c *codec) {
	c.data(&m.Data)
	c.bool(&m.Binary)
}

func (e *ClientClose) fields(c *codec) {
	optional(c, &e.Code, (*codec).u16)
	optional(c, &e.Reason, (*codec).str)
}

func (s *ResponseStart) fields(c *codec) {
	c.u16(&s.Status)
	pairs(c, &s.Headers, (*Header).name, (*Header).fields)
	c.body(&s.Body)
	c.bool(&s.Stream)
}

func (b *ResponseChunk) fields(c *codec) {
	c.data(&b.Data)
	c.bool(&b.Finish)
}

func (a *SocketAccept) fields(c *codec) { c.bool(&a.CanHibernate) }
func (a *SocketAck) fields(c *codec)    { c.u16(&a.Index) }

func (e *ActorClose) fields(c *codec) {
	optional(c, &e.Code, (*codec).u16)
	optional(c, &e.Reason, (*codec).str)
	c.bool(&e.Hibernate)
}
