package clientproto

// The bodies of calls over HTTP. A client's have the version in which it speaks. A server's are
// written for a client of a version, that of the request.
//
// Each Append appends the body to dst, of which it retains nothing, and returns the extended
// slice; after an error, dst as it was. Values must be well-formed CBOR, which is checked only where
// they must be looked into. Each Parse returns values that are parts of b in BARE and
// CBOR, except those in which it undoes an escape, and keep all of b in memory; in JSON they are
// memory of their own.

// An HTTPActionRequest calls an action, which the address names.
type HTTPActionRequest struct {
	// Args are the arguments, an array in CBOR. nil is an empty one.
	Args []byte
}

// Append appends the request of a client of version v.
func (m HTTPActionRequest) Append(dst []byte, e Encoding, v Version) ([]byte, error) {
	w, err := fromClient(dst, e, v, firstVersion, "HTTPActionRequest")
	if err != nil {
		return dst, err
	}
	w.begin().list("args", m.Args)
	return w.done()
}

// ParseHTTPActionRequest decodes a request, and returns the version of the client.
func ParseHTTPActionRequest(e Encoding, b []byte) (m HTTPActionRequest, v Version, err error) {
	r, v := atServer("HTTPActionRequest", e, b, firstVersion)
	m.Args = r.begin().list("args")
	return result(r, m, v)
}

// An HTTPActionResponse is the result of an action.
type HTTPActionResponse struct {
	// Output is a value in CBOR. nil is undefined, which JSON has no word for: there it is
	// written as null.
	Output []byte
}

// Append appends the response to a client.
func (m HTTPActionResponse) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := fromServer(dst, e, client, "HTTPActionResponse")
	if err != nil {
		return dst, err
	}
	w.begin().value("output", m.Output)
	return w.done()
}

// ParseHTTPActionResponse decodes the response to a client.
func ParseHTTPActionResponse(e Encoding, client Version, b []byte) (m HTTPActionResponse, err error) {
	r, _ := atClient("HTTPActionResponse", e, client, b, firstVersion)
	m.Output = r.begin().value("output")
	m, _, err = result(r, m, 0)
	return m, err
}

// An HTTPQueueSendRequest sends a message to a queue. Versions 3 and 4 have it.
type HTTPQueueSendRequest struct {
	// Body is a value in CBOR; nil is undefined.
	Body []byte
	// Name of the queue, nil if the address has it.
	Name *string
	// Wait says whether to answer only when the message is completed. nil means no.
	Wait *bool
	// Timeout ends the wait, in milliseconds. nil means that nothing does.
	Timeout *uint64
}

// Append appends the request of a client of version v.
func (m HTTPQueueSendRequest) Append(dst []byte, e Encoding, v Version) ([]byte, error) {
	w, err := fromClient(dst, e, v, queueVersion, "HTTPQueueSendRequest")
	if err != nil {
		return dst, err
	}
	w.begin().value("body", m.Body)
	appendOptional(w, "name", m.Name, w.text)
	appendOptional(w, "wait", m.Wait, w.flag)
	appendOptional(w, "timeout", m.Timeout, w.number)
	return w.done()
}

// ParseHTTPQueueSendRequest decodes a request, and returns the version of the client.
func ParseHTTPQueueSendRequest(e Encoding, b []byte) (m HTTPQueueSendRequest, v Version, err error) {
	r, v := atServer("HTTPQueueSendRequest", e, b, queueVersion)
	m.Body = r.begin().value("body")
	m.Name = readOptional(r, "name", r.text)
	m.Wait = readOptional(r, "wait", r.flag)
	m.Timeout = readOptional(r, "timeout", r.number)
	return result(r, m, v)
}

// What an HTTPQueueSendResponse says.
const (
	StatusCompleted = "completed"
	StatusTimedOut  = "timedOut"
)

// An HTTPQueueSendResponse says what has become of a message. It is always of version 3.
type HTTPQueueSendResponse struct {
	// Status is StatusCompleted or StatusTimedOut. Other texts are neither written nor refused.
	Status string
	// Response is a value in CBOR, nil if it is absent.
	Response []byte
}

// Append appends the response to a client.
func (m HTTPQueueSendResponse) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := fromServer(dst, e, max(client, queueVersion), "HTTPQueueSendResponse")
	if err != nil {
		return dst, err
	}
	w.begin().text("status", m.Status)
	appendValue(w, "response", m.Response)
	return w.done()
}

// ParseHTTPQueueSendResponse decodes the response to a client.
func ParseHTTPQueueSendResponse(e Encoding, client Version, b []byte) (m HTTPQueueSendResponse, err error) {
	r, _ := atClient("HTTPQueueSendResponse", e, client, b, queueVersion)
	m.Status = r.begin().text("status")
	m.Response = readValue(r, "response")
	m, _, err = result(r, m, 0)
	return m, err
}

// An HTTPResponseError says why a call failed.
type HTTPResponseError struct {
	Group, Code, Message string
	// Metadata is a value in CBOR, nil if it is absent.
	Metadata []byte
}

// Append appends the error to a client. Its version is 0 if the request couldn't be read.
func (m HTTPResponseError) Append(dst []byte, e Encoding, client Version) ([]byte, error) {
	w, err := fromServer(dst, e, client, "HTTPResponseError")
	if err != nil {
		return dst, err
	}
	w.begin().text("group", m.Group)
	w.text("code", m.Code)
	w.text("message", m.Message)
	appendValue(w, "metadata", m.Metadata)
	return w.done()
}

// ParseHTTPResponseError decodes the error to a client.
func ParseHTTPResponseError(e Encoding, client Version, b []byte) (m HTTPResponseError, err error) {
	r, _ := atClient("HTTPResponseError", e, client, b, firstVersion)
	r.begin()
	m.Group, m.Code, m.Message = r.text("group"), r.text("code"), r.text("message")
	m.Metadata = readValue(r, "metadata")
	m, _, err = result(r, m, 0)
	return m, err
}
