package front

import (
	"errors"
	"net/http"

	"github.com/greenroomdb/greenroom/host"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrOptions: New was given options that can't be served; the text says which.
	ErrOptions = errors.New("front: bad options")
	// ErrSecret: what is stored as the secret of connections isn't a secret.
	ErrSecret = errors.New("front: bad secret")
	// ErrUnauthenticated is what Options.Authorize returns, or wraps, for a request that doesn't say, or doesn't prove, from whom it is: the client is told
	// that it is unauthorized (401).
	ErrUnauthenticated = errors.New("front: not authenticated")
)

// A refusal is what the Front itself says to a client, in the form of an actor's error.
func refusal(code, message string) error { return &host.Error{Code: code, Message: message} }

var (
	errAuthorize = refusal("internal", "It could not be found out whether this is allowed.")
	errToken     = refusal("unauthorized", "A bearer token is needed.")
	errOrigin    = refusal("forbidden_origin", "Pages of this origin are not served.")
	errHost      = refusal("forbidden_host", "This is not the name of this server.")
	errNoPage    = refusal("not_found", "There is nothing here.")
	errUpgrade   = refusal("upgrade_required", "This is for WebSockets.")
	errMedia     = refusal("unsupported_media_type", "Arguments are application/json or application/cbor.")
	errCoding    = refusal("unsupported_media_type", "Bodies are taken as they are, without a Content-Encoding.")
	errAccept    = refusal("not_acceptable", "Results are application/json or application/cbor.")
	errBody      = refusal("body_too_large", "This is more than may be sent at once.")
	errSlow      = refusal("timeout", "The request took too long.")
	errCut       = refusal("bad_request", "The request could not be read.")
	errBusy      = refusal("busy", "Too much is under way; try again later.")
	errTooMany   = refusal("too_many_requests", "Too much from this address is under way; try again later.")
	errProtocol  = refusal("bad_protocol", "None of the subprotocols is known.")
	errMessage   = refusal("bad_message", "The message can't be understood.")
	errPending   = refusal("overloaded", "Too many requests of this connection are waiting.")
	errConnected = refusal("bad_message", "The connection is made already.")
)

// statuses are the HTTP statuses of codes. A code of the actor's own is 422.
var statuses = map[string]int{
	"unauthorized": 401, "forbidden": 403, "forbidden_origin": 403, "forbidden_host": 403, "not_found": 404,
	"method_not_allowed": 405, "upgrade_required": 426, "not_acceptable": 406, "body_too_large": 413,
	"unsupported_media_type": 415, "bad_request": 400, "busy": 503, "bad_protocol": 400,

	"bad_address": 400, "bad_arguments": 400, "bad_label": 400, "bad_idempotency_key": 400, "idempotency_mismatch": 422,
	"no_such_type": 404, "no_such_action": 404, "no_such_actor": 404, "no_such_connection": 404, "no_workflow": 404, "no_such_step": 404,
	"workflow_over": 409, "workflow_running": 409, "workflow_cancelled": 409, "workflow_not_started": 409, "workflow_unfinished": 409,
	"workflow_failed": 409, "workflow_state": 409,
	"actor_in_use": 421, "too_many_requests": 429, "queue_full": 429, "outbox_full": 429, "too_fast": 429,
	"overloaded": 503, "shutting_down": 503, "unavailable": 503, "host_unreachable": 503, "actor_moved": 503, "newer_schema": 503, "cancelled": 503,
	"timeout": 504, "quota_exceeded": 507, "no_space": 507,
	"unknown_outcome": 500, "actor_failed": 500, "internal": 500,
}

// status returns the HTTP status of an error.
func status(err error) int {
	if err == errSlow {
		return http.StatusRequestTimeout
	}
	if s := statuses[host.Code(err)]; s != 0 {
		return s
	}
	return http.StatusUnprocessableEntity
}
