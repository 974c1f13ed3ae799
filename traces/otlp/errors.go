package otlp

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrInvalid: what was read is no OTLP, or has spans without valid ids.
	ErrInvalid = errors.New("otlp: invalid")
	// ErrOptions: a Client or a Push was asked for what makes no sense.
	ErrOptions = errors.New("otlp: bad options")
	// ErrStatus: an endpoint answered with an HTTP status that is none of success; it
	// comes as a *StatusError.
	ErrStatus = errors.New("otlp: refused")
	// ErrTooMany: more spans ended in one nanosecond than one read returns.
	ErrTooMany = errkind.New("otlp: too many spans at once", errkind.ErrTooLarge)
)

// A StatusError is what an endpoint answered instead of taking spans. It wraps ErrStatus.
type StatusError struct {
	Code    int    // the HTTP status
	Message string // of the endpoint, for people: printable, and not long
	// After is how long the endpoint wants to be left alone, 0 if it didn't say.
	After time.Duration
}

// Error has the status and the message.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%v with status %d", ErrStatus, e.Code)
	}
	return fmt.Sprintf("%v with status %d: %s", ErrStatus, e.Code, e.Message)
}

// Unwrap returns ErrStatus.
func (e *StatusError) Unwrap() error { return ErrStatus }

// temporary reports whether OTLP has the sender try again.
func (e *StatusError) temporary() bool {
	switch e.Code {
	case 429, 502, 503, 504:
		return true
	}
	return false
}
