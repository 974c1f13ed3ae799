package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/queue"
)

// ErrNoServer: no process listens at the store.
var ErrNoServer = errkind.New("admin: no process listens at the store", errkind.ErrNotFound)

// An Error is what a Server answers with that doesn't do what it was asked for.
type Error struct {
	Code    string `json:"code"`    // see kinds in errors.go
	Message string `json:"message"` // a sentence for people
	Quota   *Quota `json:"quota,omitempty"`
}

// A Quota is how much an actor stores, and would have had to; see actorstore.QuotaError.
type Quota struct {
	Used   int64 `json:"used"`   // bytes
	Wanted int64 `json:"wanted"` // bytes
	Limit  int64 `json:"limit"`  // bytes
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Status returns the status of HTTP with which a Server answers with the error.
func (e *Error) Status() int {
	for _, k := range kinds {
		if k.code == e.Code {
			return k.status
		}
	}
	return http.StatusInternalServerError
}

// Unwrap returns the kind of the error, one of those of package greenroom, if it has one, and an *actorstore.QuotaError with what Quota says.
func (e *Error) Unwrap() (errs []error) {
	for _, k := range kinds {
		if k.code == e.Code && k.err != nil {
			errs = append(errs, k.err)
		}
	}
	if q := e.Quota; q != nil {
		errs = append(errs, &actorstore.QuotaError{Used: q.Used, Wanted: q.Wanted, Limit: q.Limit})
	}
	return errs
}

// kinds are the codes of errors, the more special ones first.
var kinds = []struct {
	code   string
	err    error
	status int
}{
	{"invalid", nil, http.StatusBadRequest},
	{"unauthorized", nil, http.StatusUnauthorized},
	{"forbidden", nil, http.StatusForbidden},
	{"upgrade_required", nil, http.StatusUpgradeRequired},
	{"not_found", errkind.ErrNotFound, http.StatusNotFound},
	{"in_use", errkind.ErrInUse, http.StatusConflict},
	{"conflict", errkind.ErrConflict, http.StatusConflict},
	{"quota", errkind.ErrQuota, http.StatusInsufficientStorage},
	{"no_space", errkind.ErrNoSpace, http.StatusInsufficientStorage},
	{"too_large", errkind.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{"unknown_outcome", errkind.ErrUnknownOutcome, http.StatusInternalServerError},
	{"fenced", errkind.ErrFenced, http.StatusConflict},
	{"poisoned", errkind.ErrPoisoned, http.StatusInternalServerError},
	{"overloaded", nil, http.StatusServiceUnavailable},
	{"closed", errkind.ErrClosed, http.StatusServiceUnavailable},
	{"read_only", errkind.ErrReadOnly, http.StatusForbidden},
	{"unsupported", errkind.ErrUnsupported, http.StatusNotImplemented},
	{"newer_format", errkind.ErrNewerFormat, http.StatusInternalServerError},
	{"corrupt", errkind.ErrCorrupt, http.StatusInternalServerError},
	{"interrupted", context.Canceled, http.StatusServiceUnavailable},
	{"timeout", context.DeadlineExceeded, http.StatusGatewayTimeout},
}

// say returns err as a sentence.
func say(err error, format string, args ...any) error { return errkind.Say(err, format, args...) }

// newError returns err as it is sent.
func newError(err error) (_ *Error, status int) {
	e := &Error{Code: "failed", Message: err.Error()}
	switch said := (*Error)(nil); {
	case errors.As(err, &said):
		e.Code = said.Code
	case errors.Is(err, actorstore.ErrID), errors.Is(err, actorstore.ErrName):
		e.Code, e.Message = "invalid", strings.TrimPrefix(e.Message, "actorstore: ")
	case errors.As(err, new(*queue.InvalidError)):
		e.Code, e.Message = "invalid", strings.TrimPrefix(e.Message, "queue: ")
	}
	if q := (*actorstore.QuotaError)(nil); errors.As(err, &q) {
		e.Quota = &Quota{q.Used, q.Wanted, q.Limit}
	}
	status = http.StatusInternalServerError
	for _, k := range kinds {
		if k.code == e.Code || e.Code == "failed" && k.err != nil && errors.Is(err, k.err) {
			e.Code, status = k.code, k.status
			break
		}
	}
	return e, status
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	e, status := newError(err)
	send(w, status, e)
}

// reply answers with what was asked for.
func reply(w http.ResponseWriter, v any) { send(w, http.StatusOK, v) }

func send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // of a value that says it is JSON, and isn't
		status, body = http.StatusInternalServerError, []byte(`{"code":"failed","message":"the answer can't be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // what doesn't arrive the client misses
}
