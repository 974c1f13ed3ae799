package conn

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart. Errors of the actor (fenced,
// poisoned, over its quota) and of the limits of a batch come through unchanged.
var (
	// ErrGone: the connection was disconnected.
	ErrGone = errkind.New("conn: connection is gone", errkind.ErrClosed)
	// ErrClosed: the Set is closed, or being closed.
	ErrClosed = errkind.New("conn: closed", errkind.ErrClosed)
	// ErrExists: another connection has the gateway and the request.
	ErrExists = errors.New("conn: connection exists")
	// ErrInfo: what a connection was to be made of can't be stored: a hibernating one
	// without a path, a text that isn't UTF-8, two headers of one name.
	ErrInfo = errors.New("conn: bad connection")
	// ErrValue: a state or parameters that can't be stored, or can't be read into what
	// was given; the error says which part of it.
	ErrValue = errors.New("conn: bad value")
	// ErrTooLarge: the connection's record would be larger than a value may be; it comes
	// as a *SizeError. The connection is as it was.
	ErrTooLarge = errkind.New("conn: connection is too large", errkind.ErrTooLarge)
	// ErrUnknown: no quarantined record has that id.
	ErrUnknown = errkind.New("conn: no such record", errkind.ErrNotFound)
)

// A SizeError says how large a connection's record would have become. It wraps ErrTooLarge.
type SizeError struct {
	ID    ID
	Size  int // bytes of the record
	Limit int // bytes of a value
}

// Error names both numbers.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %s would have %d bytes, limit %d", ErrTooLarge, e.ID, e.Size, e.Limit)
}

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }
