package queue

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart. What actorstore and package
// batch return comes through unchanged. Nothing of what is refused here was written.
var (
	// ErrFull: the queue has as many messages as it may; it comes as a *FullError.
	ErrFull = errkind.New("queue: full", errkind.ErrQuota)
	// ErrTooLarge: a message is larger than it may be; it comes as a *SizeError.
	ErrTooLarge = errkind.New("queue: message too large", errkind.ErrTooLarge)
	// ErrInvalid: a body or an answer can't be stored, a name is not UTF-8, a count is
	// negative; it comes as an *InvalidError.
	ErrInvalid = errors.New("queue: invalid")
	// ErrUnknownName: Options.Names doesn't have the name.
	ErrUnknownName = errors.New("queue: unknown name")
	// ErrOptions: Open was given options that make no sense.
	ErrOptions = errors.New("queue: bad options")
	// ErrPlain: what is stored for readers that know no more has no delay (Options.Plain), and no priority or Debounce
	// (Options.Plain, actorstore.LayoutRivetKit).
	ErrPlain = errkind.New("queue: other readers of this queue know no delays, priorities or Debounce", errkind.ErrUnsupported)
	// ErrGone: the message isn't there: it was completed, received at most once,
	// deleted, or moved to its dead-letter name.
	ErrGone = errkind.New("queue: message is gone", errkind.ErrNotFound)
	// ErrLeaseOver: the message is there, and the receipt isn't good any more: its lease
	// has ended, or was given back.
	ErrLeaseOver = errors.New("queue: lease is over")
	// ErrBusy: a batch that isn't settled yet has staged something about the message, or
	// has the sender's key.
	ErrBusy = errkind.New("queue: another batch has it", errkind.ErrConflict)
	// ErrKeysFull: as many keys are remembered as may be.
	ErrKeysFull = errkind.New("queue: too many keys", errkind.ErrQuota)
	// ErrTimedOut: no answer came in time. The message stays in the queue if it was
	// enqueued.
	ErrTimedOut = errors.New("queue: timed out")
	// ErrNoAnswer: an answer can't come any more: the message was received at most once,
	// became a dead letter, was deleted, can't be read, or was settled before anybody
	// waited.
	ErrNoAnswer = errors.New("queue: no answer")
	// ErrStale: a batch of mode Ordered landed in part, so that it isn't known what the
	// queue holds. Open it again.
	ErrStale = errkind.New("queue: must be opened again", errkind.ErrPoisoned)
	// ErrClosed: the queue is closed.
	ErrClosed = errkind.New("queue: closed", errkind.ErrClosed)
	// ErrID: a text isn't an ID, or a Receipt.
	ErrID = errors.New("queue: bad id")
	// ErrNoIDs: all ids have been given; none is given twice.
	ErrNoIDs = errors.New("queue: there are no ids left")
)

// A FullError says how many messages a queue may have. It wraps ErrFull.
type FullError struct{ Limit int }

// Error is a sentence for people.
func (e *FullError) Error() string {
	return fmt.Sprintf("Queue is full. Limit is %d messages.", e.Limit)
}

// Unwrap returns ErrFull.
func (e *FullError) Unwrap() error { return ErrFull }

// A SizeError says how large a message would be, as it is stored, and may be, in bytes.
// It wraps ErrTooLarge.
type SizeError struct{ Size, Limit int }

// Error names both.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, limit %d", ErrTooLarge, e.Size, e.Limit)
}

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }

// An InvalidError says what can't be stored. It wraps ErrInvalid.
type InvalidError struct {
	What string // "body", "response", "name" or "options"
	Path string // the place in a body or a response, "" for all of it
	Err  error
}

// Error says what, where and why.
func (e *InvalidError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v %s: %v", ErrInvalid, e.What, e.Err)
	}
	return fmt.Sprintf("%v %s at %s: %v", ErrInvalid, e.What, e.Path, e.Err)
}

// Unwrap returns ErrInvalid and the reason.
func (e *InvalidError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// Code returns the word by which a program that talks to others names an error of this
// package: "full", "message_too_large", "message_invalid", "invalid_completion_payload",
// "already_completed", "lease_over", "previous_message_not_completed", "timed_out",
// "unknown_name", "aborted"; "" for any other.
func Code(err error) string {
	var invalid *InvalidError
	if errors.As(err, &invalid) && invalid.What == whatResponse {
		return "invalid_completion_payload"
	}
	for _, c := range [...]struct {
		err  error
		code string
	}{
		{ErrFull, "full"},
		{ErrTooLarge, "message_too_large"},
		{ErrInvalid, "message_invalid"},
		{ErrGone, "already_completed"},
		{ErrLeaseOver, "lease_over"},
		{ErrTimedOut, "timed_out"},
		{ErrUnknownName, "unknown_name"},
		{ErrClosed, "aborted"},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return ""
}

// What an InvalidError is about.
const (
	whatBody     = "body"
	whatResponse = "response"
	whatName     = "name"
	whatOptions  = "options"
)

// damaged reports whether err says that a stored message can't be understood.
func damaged(err error) bool {
	return errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) || errors.Is(err, actorstore.ErrNotFound)
}
