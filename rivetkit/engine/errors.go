package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// An apiError is one that clients are told of.
type apiError struct {
	Group, Code string
	Message     string
	Status      int // of HTTP
	Metadata    any // JSON; nil for none
}

func newError(status int, group, code, message string) *apiError {
	return &apiError{Group: group, Code: code, Message: message, Status: status}
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%s.%s: %s", e.Group, e.Code, e.Message) }

// Errors of several files.
var (
	// errNotFound says that the actor does not exist.
	errNotFound = newError(http.StatusBadRequest, "actor", "not_found", "The actor does not exist or was destroyed.")
	// errNoRoute says that there is nothing at an address.
	errNoRoute = newError(http.StatusNotFound, "api", "not_found", "There is nothing at this address.")
	// errForbidden says that the token isn't good.
	errForbidden = newError(http.StatusForbidden, "auth", "forbidden", "The token is missing or wrong.")
	// errUnavailable says that an actor can't be reached now, and that nothing was done.
	errUnavailable = newError(http.StatusServiceUnavailable, "guard", "service_unavailable", "The actor can't be reached now.")
	// errLeaving says that the engine is about to end, and starts no actor any more.
	errLeaving = fmt.Errorf("%w: the engine is about to end", errUnavailable)
	// errStopped says that the actor stopped before it answered.
	errStopped = newError(http.StatusServiceUnavailable, "actor", "stopping", "The actor stopped before it answered.")
	// errUnknownOutcome says that the runner was lost.
	errUnknownOutcome = newError(http.StatusInternalServerError, "actor", "unknown_outcome", "The actor's runner was lost. It isn't known whether the request was served.")
	// errTooLong says that a body, or a message that must be stored, is too long.
	errTooLong = newError(http.StatusBadRequest, "message", "incoming_too_long", "The body is too long.")
	// errAnswer says that an answer is too long.
	errAnswer = newError(http.StatusBadRequest, "message", "outgoing_too_long", "The answer is too long.")
	// errBusy says that a request finds too little memory.
	errBusy = newError(http.StatusServiceUnavailable, "guard", "service_unavailable", "Too much is under way.")
	// errNoAnswer says that an answer hasn't begun in time.
	errNoAnswer = newError(http.StatusGatewayTimeout, "guard", "gateway_response_start_timeout", "Timed out waiting for the actor to answer.")
	// errNotReady says that no runner has started the actor in time.
	errNotReady = newError(http.StatusServiceUnavailable, "guard", "actor_ready_timeout", "Timed out waiting for the actor to become ready. Is there a runner of its name in its namespace?")
)

// Errors of an engine about others.
var (
	// errMoved says that it has no such actor, or no runner for it.
	errMoved = errors.New("engine: the other engine hasn't got the actor")
	// errFar says that an engine can't be reached, and that nothing was done.
	errFar = newError(errUnavailable.Status, errUnavailable.Group, errUnavailable.Code, "The engine that has the actor can't be reached now.")
	// errElsewhere says that an actor has no runner here, and has one at another engine; nothing was done.
	errElsewhere = newError(errUnavailable.Status, errUnavailable.Group, errUnavailable.Code, "Another engine has a runner for the actor.")
	// errEngineLost says that an engine was lost that was asked for something.
	errEngineLost = newError(errUnknownOutcome.Status, errUnknownOutcome.Group, errUnknownOutcome.Code, "The engine that has the actor was lost. It isn't known whether the request was served.")
)

func invalid(why string) error {
	return newError(http.StatusBadRequest, "api", "invalid_request", "Invalid request: "+why+".")
}

// errorOf returns what a client is told of err.
func errorOf(err error) *apiError {
	if e := (*apiError)(nil); errors.As(err, &e) {
		return e
	}
	return &apiError{
		Group: "core", Code: "internal_error", Message: "Internal error. Read the server logs for more details.", Status: http.StatusInternalServerError,
		Metadata: map[string]any{},
	}
}

// writeError answers a request with what a client is told of err, in JSON.
func writeError(w http.ResponseWriter, err error) {
	e := errorOf(err)
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	out := map[string]any{"group": e.Group, "code": e.Code, "message": e.Message}
	if e.Metadata != nil {
		out["metadata"] = e.Metadata
	}
	writeJSON(w, e.Status, out)
}

// writeJSON answers a request with v, which can be encoded.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // its callers pass maps of plain values
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // else the client may take its time
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone
}

// closeReason returns the reason with which a WebSocket is closed because of err: group.code.
func closeReason(err error) string {
	e := errorOf(err)
	reason := e.Group + "." + e.Code
	return reason[:min(len(reason), 123)]
}
