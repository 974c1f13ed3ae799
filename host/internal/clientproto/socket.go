package clientproto

// The messages of a socket: one a frame, which is binary in BARE and CBOR, and text in JSON.
// What is said of the bodies over HTTP about Append and Parse, and about who owns bytes, goes for
// them, too.

// The tags of messages, by their numbers in BARE.
var (
	toClientTags = []string{"Init", "Error", "ActionResponse", "Event"}
	toServerTags = []string{"ActionRequest", "SubscriptionRequest"}
)

const (
	tagInit = iota
	tagError
	tagActionResponse
	tagEvent
)

const (
	tagActionRequest = iota
	tagSubscriptionRequest
)

// A ToClient is a message of a server: an Init, an Error, an ActionResponse or an Event.
type ToClient interface {
	// Append appends the message to a client. Its version is that of its latest message, or 0
	// before the first.
	Append(dst []byte, e Encoding, client Version) ([]byte, error)
	toClient()
}

// A ToServer is a message of a client: an ActionRequest or a SubscriptionRequest.
type ToServer interface {
	// Append appends the message of a client of version v.
	Append(dst []byte, e Encoding, v Version) ([]byte, error)
	toServer()
}

// ParseToClient decodes a message to a client.
func ParseToClient(e Encoding, client Version, b []byte) (ToClient, error) {
	r, v := atClient("ToClient", e, client, b, firstVersion)
	var m ToClient
	switch r.tag(toClientTags) {
	case tagInit:
		if e == Bare && !r.failed() {
			r.err = v.between(initVersion, lastAnswer, "Init")
		}
		m = Init{r.text("actorId"), r.text("connectionId")}
	case tagError:
		m = Error{r.text("group"), r.text("code"), r.text("message"), readValue(r, "metadata"), readOptional(r, "actionId", r.id)}
	case tagActionResponse:
		m = ActionResponse{r.id("id"), r.value("output")}
	case tagEvent:
		m = Event{r.text("name"), r.list("args")}
	}
	m, _, err := result(r, m, 0)
	return m, err
}

// ParseToServer decodes a message of a client, and returns the client's version.
func ParseToServer(e Encoding, b []byte) (ToServer, Version, error) {
	r, v := atServer("ToServer", e, b, firstVersion)
	var m ToServer
	switch r.tag(toServerTags) {
	case tagActionRequest:
		m = ActionRequest{r.id("id"), r.text("name"), r.list("args")}
	case tagSubscriptionRequest:
		m = SubscriptionRequest{r.text("eventName"), r.flag("subscribe")}
	}
	return result(r, m, v)
}

// to returns a writer of a message to a client.
func to(dst []byte, e Encoding, client Version, tag uint8) (*writer, error) {
	w, err := fromServer(dst, e, client, toClientTags[tag])
	if err != nil {
		return nil, err
	}
	return w.beginTag(toClientTags, tag), nil
}

// An Init says that the actor has let the client in. It is the first message, and there is one.
type Init struct {
	ActorID, ConnectionID string
}

func (Init) toClient() {}

// Append implements ToClient. Version 1 has an Init with another field: to a client of version 1 it
// is ErrVersion.
func (m Init) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	if e == Bare && client == firstVersion {
		return dst, client.between(initVersion, lastVersion, "Init")
	}
	w, err := to(dst, e, client, tagInit)
	if err != nil {
		return dst, err
	}
	w.text("actorId", m.ActorID)
	w.text("connectionId", m.ConnectionID)
	return w.done()
}

// An Error says that an action failed, or something else on the connection.
type Error struct {
	Group, Code, Message string
	// Metadata is a value in CBOR, nil if it is absent.
	Metadata []byte
	// ActionID is the action's, nil if the error isn't one of an action.
	ActionID *ActionID
}

func (Error) toClient() {}

// Append implements ToClient. Unlike the error of a call over HTTP, it has no metadata in CBOR
// and JSON if there is none, and always an id, which is null if there is none.
func (m Error) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := to(dst, e, client, tagError)
	if err != nil {
		return dst, err
	}
	w.text("group", m.Group)
	w.text("code", m.Code)
	w.text("message", m.Message)
	if m.Metadata != nil || e == Bare {
		appendValue(w, "metadata", m.Metadata)
	}
	if m.ActionID == nil && e != Bare {
		w.null("actionId")
		return w.done()
	}
	appendOptional(w, "actionId", m.ActionID, w.id)
	return w.done()
}

// An ActionResponse is the result of an action.
type ActionResponse struct {
	ID ActionID
	// Output is a value in CBOR. nil is undefined, which JSON has no word for: there it is
	// written as null.
	Output []byte
}

func (ActionResponse) toClient() {}

// Append implements ToClient.
func (m ActionResponse) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := to(dst, e, client, tagActionResponse)
	if err != nil {
		return dst, err
	}
	w.id("id", m.ID)
	w.value("output", m.Output)
	return w.done()
}

// An Event is one that the client has subscribed to, or that was sent to it alone.
type Event struct {
	Name string
	// Args are the arguments, an array in CBOR. nil is an empty one.
	Args []byte
}

func (Event) toClient() {}

// Append implements ToClient.
func (m Event) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := to(dst, e, client, tagEvent)
	if err != nil {
		return dst, err
	}
	w.text("name", m.Name)
	w.list("args", m.Args)
	return w.done()
}

// An ActionRequest calls an action. Its answer is an ActionResponse or an Error with its id.
type ActionRequest struct {
	ID   ActionID
	Name string
	// Args are the arguments, an array in CBOR. nil is an empty one.
	Args []byte
}

func (ActionRequest) toServer() {}

// Append implements ToServer.
func (m ActionRequest) Append(dst []byte, e Encoding, v Version) ([]byte, error) {
	w, err := fromClient(dst, e, v, firstVersion, toServerTags[tagActionRequest])
	if err != nil {
		return dst, err
	}
	w.beginTag(toServerTags, tagActionRequest)
	w.id("id", m.ID)
	w.text("name", m.Name)
	w.list("args", m.Args)
	return w.done()
}

// A SubscriptionRequest begins or ends a subscription to an event. It has no answer.
type SubscriptionRequest struct {
	EventName string
	Subscribe bool
}

func (SubscriptionRequest) toServer() {}

// Append implements ToServer.
func (m SubscriptionRequest) Append(dst []byte, e Encoding, v Version) ([]byte, error) {
	w, err := fromClient(dst, e, v, firstVersion, toServerTags[tagSubscriptionRequest])
	if err != nil {
		return dst, err
	}
	w.beginTag(toServerTags, tagSubscriptionRequest)
	w.text("eventName", m.EventName)
	w.flag("subscribe", m.Subscribe)
	return w.done()
}
