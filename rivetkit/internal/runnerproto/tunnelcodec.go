package runnerproto

import "github.com/greenroomdb/greenroom/internal/bare"

// Tags of messages to an actor.
const (
	tagRequestStart = iota
	tagRequestChunk
	tagRequestAbort
	tagSocketOpen
	tagMessageToActor
	tagClientClose
	toActorTags
)

func (m ToActor) toRunner(w *writer) {
	w.tag(tagToActor)
	m.ID.append(w)
	if m.Body == nil {
		w.fail("message without a body")
		return
	}
	m.Body.toActor(w)
}

func (s RequestStart) toActor(w *writer) {
	w.tag(tagRequestStart)
	w.str(s.Actor)
	w.str(s.Method)
	w.str(s.Path)
	appendHeaders(w, s.Headers)
	appendBody(w, s.Body)
	w.bool(s.Stream)
}

func (c RequestChunk) toActor(w *writer) {
	w.tag(tagRequestChunk)
	w.data(c.Data)
	w.bool(c.Finish)
}

func (RequestAbort) toActor(w *writer) { w.tag(tagRequestAbort) }

func (o SocketOpen) toActor(w *writer) {
	w.tag(tagSocketOpen)
	w.str(o.Actor)
	w.str(o.Path)
	appendHeaders(w, o.Headers)
}

func (m SocketMessage) toActor(w *writer) {
	w.tag(tagMessageToActor)
	m.append(w)
}

func (c ClientClose) toActor(w *writer) {
	w.tag(tagClientClose)
	appendOptional(w, c.Code, (*writer).u16)
	appendOptional(w, c.Reason, (*writer).str)
}

func readToActor(r *bare.Reader) ToActor { return ToActor{readMessageID(r), readToActorBody(r)} }

func readToActorBody(r *bare.Reader) ToActorBody {
	switch r.Tag(toActorTags) {
	case tagRequestChunk:
		return RequestChunk{r.Data(), r.Bool()}
	case tagRequestAbort:
		return RequestAbort{}
	case tagSocketOpen:
		return SocketOpen{r.String(), r.String(), readHeaders(r)}
	case tagMessageToActor:
		return readSocketMessage(r)
	case tagClientClose:
		return ClientClose{readOptional(r, (*bare.Reader).U16), readOptional(r, (*bare.Reader).String)}
	}
	return RequestStart{r.String(), r.String(), r.String(), readHeaders(r), readBody(r), r.Bool()}
}

// Tags of messages from an actor.
const (
	tagResponseStart = iota
	tagResponseChunk
	tagResponseAbort
	tagSocketAccept
	tagMessageFromActor
	tagSocketAck
	tagActorClose
	fromActorTags
)

func (m FromActor) toEngine(w *writer) {
	w.tag(tagFromActor)
	m.ID.append(w)
	if m.Body == nil {
		w.fail("message without a body")
		return
	}
	m.Body.fromActor(w)
}

func (s ResponseStart) fromActor(w *writer) {
	w.tag(tagResponseStart)
	w.u16(s.Status)
	appendHeaders(w, s.Headers)
	appendBody(w, s.Body)
	w.bool(s.Stream)
}

func (c ResponseChunk) fromActor(w *writer) {
	w.tag(tagResponseChunk)
	w.data(c.Data)
	w.bool(c.Finish)
}

func (ResponseAbort) fromActor(w *writer) { w.tag(tagResponseAbort) }

func (a SocketAccept) fromActor(w *writer) {
	w.tag(tagSocketAccept)
	w.bool(a.CanHibernate)
}

func (m SocketMessage) fromActor(w *writer) {
	w.tag(tagMessageFromActor)
	m.append(w)
}

func (a SocketAck) fromActor(w *writer) {
	w.tag(tagSocketAck)
	w.u16(a.Index)
}

func (c ActorClose) fromActor(w *writer) {
	w.tag(tagActorClose)
	appendOptional(w, c.Code, (*writer).u16)
	appendOptional(w, c.Reason, (*writer).str)
	w.bool(c.Hibernate)
}

func readFromActor(r *bare.Reader) FromActor {
	return FromActor{readMessageID(r), readFromActorBody(r)}
}

func readFromActorBody(r *bare.Reader) FromActorBody {
	switch r.Tag(fromActorTags) {
	case tagResponseChunk:
		return ResponseChunk{r.Data(), r.Bool()}
	case tagResponseAbort:
		return ResponseAbort{}
	case tagSocketAccept:
		return SocketAccept{r.Bool()}
	case tagMessageFromActor:
		return readSocketMessage(r)
	case tagSocketAck:
		return SocketAck{r.U16()}
	case tagActorClose:
		return ActorClose{readOptional(r, (*bare.Reader).U16), readOptional(r, (*bare.Reader).String), r.Bool()}
	}
	return ResponseStart{r.U16(), readHeaders(r), readBody(r), r.Bool()}
}

func (m SocketMessage) append(w *writer) {
	w.data(m.Data)
	w.bool(m.Binary)
}

func readSocketMessage(r *bare.Reader) SocketMessage { return SocketMessage{r.Data(), r.Bool()} }
