package history

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart. What actorstore and package
// batch return comes through unchanged. Nothing of what is refused here was written.
var (
	// ErrCorrupt: something stored is damaged; it comes as a *DamageError where the key is
	// known. It is actorstore.ErrCorrupt.
	ErrCorrupt = actorstore.ErrCorrupt
	// ErrNewerFormat: an entry or metadata are of a version that is not known here. It is
	// actorstore.ErrNewerFormat.
	ErrNewerFormat = actorstore.ErrNewerFormat
	// ErrTooLarge: something can't be stored because of its size; it comes as a
	// *SizeError.
	ErrTooLarge = errkind.New("history: too large", errkind.ErrTooLarge)
	// ErrCancelled: the workflow was cancelled, which nothing can change.
	ErrCancelled = errors.New("history: workflow is cancelled")
	// ErrTransition: the workflow can't go from its state to that one; it comes as a
	// *TransitionError.
	ErrTransition = errors.New("history: not from this state")
	// ErrInvalid: a name, an id or an entry can't be stored at all, whatever its size.
	ErrInvalid = errors.New("history: invalid")
	// ErrClosed: the history is closed.
	ErrClosed = errkind.New("history: closed", errkind.ErrClosed)
)

// A SizeError says what of a workflow can't be stored, and why. It wraps ErrTooLarge, and
// a *batch.LimitError.
type SizeError struct {
	Path  string // of the entry, as Path has it; "output", "error", … of the workflow itself
	What  string // what was counted, as "bytes of the value"
	Size  int
	Limit int
	Err   error // the *batch.LimitError
}

// Error names the place, the size and the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %s: %d %s, limit %d", ErrTooLarge, e.Path, e.Size, e.What, e.Limit)
}

// Unwrap returns ErrTooLarge and the *batch.LimitError.
func (e *SizeError) Unwrap() []error { return []error{ErrTooLarge, e.Err} }

// A TransitionError says between which states a workflow can't go. It wraps ErrTransition,
// and ErrCancelled if that is why.
type TransitionError struct{ From, To State }

// Error names both.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("history: a workflow that is %v can't become %v", e.From, e.To)
}

// Unwrap returns ErrTransition, or both.
func (e *TransitionError) Unwrap() []error {
	if e.From == Cancelled {
		return []error{ErrTransition, ErrCancelled}
	}
	return []error{ErrTransition}
}

// A DamageError is the first Damage that History can't go on with. It wraps Err.
type DamageError struct{ Damage }

// Error names the key and what is wrong.
func (e *DamageError) Error() string { return e.Damage.String() }

// Unwrap returns what is wrong, which wraps ErrCorrupt or ErrNewerFormat.
func (e *DamageError) Unwrap() error { return e.Err }

// A Damage is one thing that is wrong with what is stored of a workflow.
type Damage struct {
	Key []byte // of the actor
	Err error  // wraps ErrCorrupt or ErrNewerFormat
	// Harmless: no run is changed by it. Metadata of an entry that isn't there is.
	Harmless bool
}

// String returns the key in words, and what is wrong.
func (d Damage) String() string { return fmt.Sprintf("%s: %v", actorstore.Describe(d.Key), d.Err) }
