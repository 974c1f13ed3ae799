package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// An Error is one that clients are told of.
type Error struct {
	Group, Code string
	Message     string
	Status      int // of HTTP
	Metadata    any // JSON; nil for none
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s.%s: %s", e.Group, e.Code, e.Message) }

// Errors of more than one package.
var (
	// ErrNotFound says that there is no such actor.
	ErrNotFound = &Error{Group: "actor", Code: "not_found", Message: "The actor does not exist or was destroyed.", Status: http.StatusBadRequest}
	// ErrNoRoute says that there is nothing at an address.
	ErrNoRoute = &Error{Group: "api", Code: "not_found", Message: "There is nothing at this address.", Status: http.StatusNotFound}
	// ErrForbidden says that the token isn't good.
	ErrForbidden = &Error{Group: "auth", Code: "forbidden", Message: "The token is missing or wrong.", Status: http.StatusForbidden}
	// ErrUnavailable says that an actor can't be reached now, and that nothing was done.
	ErrUnavailable = &Error{Group: "guard", Code: "service_unavailable", Message: "The actor can't be reached now.", Status: http.StatusServiceUnavailable}
)

func invalid(why string) error {
	return &Error{Group: "api", Code: "invalid_request", Message: "Invalid request: " + why + ".", Status: http.StatusBadRequest}
}

// Of returns what a client is told of err.
func Of(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{
		Group: "core", Code: "internal_error", Message: "Internal error. Read the server logs for more details.", Status: http.StatusInternalServerError,
		Metadata: map[string]any{},
	}
}

// WriteError answers a request with what a client is told of err, in JSON.
func WriteError(w http.ResponseWriter, err error) {
	e := Of(err)
	out := map[string]any{"group": e.Group, "code": e.Code, "message": e.Message}
	if e.Metadata != nil {
		out["metadata"] = e.Metadata
	}
	WriteJSON(w, e.Status, out)
}

// WriteJSON answers a request with v, which can be encoded.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // its callers pass maps of plain values
	}
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone
}

// CloseReason returns the reason with which a WebSocket is closed because of err: group.code.
func CloseReason(err error) string {
	e := Of(err)
	reason := e.Group + "." + e.Code
	return reason[:min(len(reason), 123)]
}

// refuse answers a request that reaches no actor. A WebSocket is taken, and closed: of one that is refused before, a
// browser sees nothing.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !IsWebSocket(r) {
		WriteError(w, err)
		return
	}
	ws, fail := Accept(w, r)
	if fail != nil {
		return // it is answered
	}
	_ = ws.Close(websocket.StatusInternalError, CloseReason(err))
}
