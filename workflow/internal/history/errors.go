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
	// errCorrupt: something stored is damaged; it comes as a *damageError where the key is
	// known. It is actorstore.ErrCorrupt.
	errCorrupt = actorstore.ErrCorrupt
	// errNewerFormat: an entry or metadata are of a version that is not known here. It is
	// actorstore.ErrNewerFormat.
	errNewerFormat = actorstore.ErrNewerFormat
	// errTooLarge: something can't be stored because of its size; it comes as a
	// *SizeError.
	errTooLarge = errkind.New("history: too large", errkind.ErrTooLarge)
	// ErrCancelled: the workflow was cancelled, which nothing can change.
	ErrCancelled = errors.New("history: workflow is cancelled")
	// ErrTransition: the workflow can't go from its state to that one; it comes as a
	// *transitionError.
	ErrTransition = errors.New("history: not from this state")
	// errInvalid: a name, an id or an entry can't be stored at all, whatever its size.
	errInvalid = errors.New("history: invalid")
	// ErrClosed: the history is closed.
	ErrClosed = errkind.New("history: closed", errkind.ErrClosed)
)

// A SizeError says what of a workflow can't be stored, and why. It wraps errTooLarge, and
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
	return fmt.Sprintf("%v: %s: %d %s, limit %d", errTooLarge, e.Path, e.Size, e.What, e.Limit)
}

// Unwrap returns errTooLarge and the *batch.LimitError.
func (e *SizeError) Unwrap() []error { return []error{errTooLarge, e.Err} }

// A damageError is the first Damage that History can't go on with. It wraps Err.
type damageError struct{ Damage }

// Error names the key and what is wrong.
func (e *damageError) Error() string { return e.Damage.String() }

// Unwrap returns what is wrong, which wraps errCorrupt or errNewerFormat.
func (e *damageError) Unwrap() error { return e.Err }

// A Damage is one thing that is wrong with what is stored of a workflow.
type Damage struct {
	Key []byte // of the actor
	Err error  // wraps errCorrupt or errNewerFormat
	// Harmless: no run is changed by it. Metadata of an entry that isn't there is.
	Harmless bool
}

// String returns the key in words, and what is wrong.
func (d Damage) String() string { return fmt.Sprintf("%s: %v", actorstore.Describe(d.Key), d.Err) }
