package persist

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart. Errors of the actor
// (actorstore.ErrFenced, ErrPoisoned, ErrQuota, ErrClosed, …) come through.
var (
	// ErrNoRecord: the actor has no record. Options.Create makes one.
	ErrNoRecord = errkind.New("persist: actor has no record", errkind.ErrNotFound)
	// ErrTooLarge: the record would be larger than a value may be. It comes as a
	// *SizeError, and nothing was changed.
	ErrTooLarge = errkind.New("persist: record too large", errkind.ErrTooLarge)
	// ErrClosed: the Record is closed, or being closed.
	ErrClosed = errkind.New("persist: closed", errkind.ErrClosed)
	// ErrStarted: the schedule was started, and the context of that start is not done.
	ErrStarted = errors.New("persist: schedule is started")
	// ErrPanic: an action panicked. It says with what.
	ErrPanic = errors.New("persist: panic")
	// ErrJob: what was to be scheduled makes no sense: no action, a text that isn't
	// UTF-8, a bad cron expression, an unknown time zone, a time out of range.
	ErrJob = errors.New("persist: bad job")
	// ErrNoEvent: no event has that id.
	ErrNoEvent = errkind.New("persist: no such event", errkind.ErrNotFound)
)

// A SizeError says what made the record too large, and by how much. It wraps
// ErrTooLarge.
type SizeError struct {
	What  string // "input", "state" or "events"
	Size  int    // of the whole record, in bytes
	Limit int    // of a value, in bytes
}

// Error names all three.
func (e *SizeError) Error() string {
	return fmt.Sprintf("persist: record too large: %d bytes with the new %s, limit %d", e.Size, e.What, e.Limit)
}

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }
