package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// ErrClosed is what a connection, and what waits for it, fails with after Close.
var ErrClosed = errkind.New("client: the connection was closed", errkind.ErrClosed)

// sentinels are those that errors.Is finds in what a host says, by their codes.
var sentinels = func() map[string]error {
	of := map[string]error{}
	for _, err := range []error{
		host.ErrUnknownOutcome, host.ErrUnreachable, host.ErrAddress, host.ErrNoType, host.ErrNoAction, host.ErrNoActor, host.ErrNoConn, host.ErrNoWorkflow, host.ErrArgs,
		host.ErrIdempotencyKey, host.ErrIdempotencyMismatch, host.ErrOverloaded, host.ErrOutboxFull, host.ErrTooFast, host.ErrClosed,
	} {
		of[host.Code(err)] = err
	}
	return of
}()

// told returns the error that a host has said.
func told(code, message string) error {
	return &host.Error{Code: code, Message: message, Err: sentinels[code]}
}

// passing are the codes after which nothing has landed, and to try again may help.
var passing = map[string]bool{
	"overloaded": true, "busy": true, "shutting_down": true, "unavailable": true, "host_unreachable": true, "actor_moved": true, "actor_in_use": true, "newer_schema": true,
	"cancelled": true, "timeout": true, "queue_full": true, "outbox_full": true, "too_fast": true, "too_many_requests": true,
}

// undecided are the codes that say nothing about what was sent before with the same key.
var undecided = map[string]bool{"unauthorized": true, "forbidden": true}

// mediaType is what calls are sent in, and answered.
const mediaType = "application/cbor"

// problemOf returns the error of an answer.
func problemOf(resp *http.Response, text []byte) error {
	var p struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	read := json.Unmarshal
	if isCBOR(resp.Header) {
		read = func(text []byte, v any) error { return host.Raw(text).Decode(v) }
	}
	if err := read(text, &p); err == nil && p.Code != "" {
		return told(p.Code, p.Message)
	}
	code := "bad_response" // it is the answer of something in between
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		code = "too_many_requests"
	case resp.StatusCode >= 500:
		code = "unknown_outcome"
	}
	return told(code, fmt.Sprintf("The answer has status %d and nothing else that is known.", resp.StatusCode))
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// pause is how long to wait after so many failures: by chance between half of the time and all of it.
func pause(failures int) time.Duration {
	d := min(firstPause<<min(failures, 10), longestPause)
	return d/2 + rand.N(d/2)
}

// sleep waits, and returns why ctx has ended if it has before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
