package workflow

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrNotStarted: the workflow has no input yet.
	ErrNotStarted = errors.New("workflow: not started")
	// ErrUnfinished: the workflow has no output yet.
	ErrUnfinished = errors.New("workflow: not finished")
	// ErrFailed: the workflow has failed; it comes as a *FailedError.
	ErrFailed = errors.New("workflow: failed")
	// ErrCancelled: the workflow was cancelled, for ever.
	ErrCancelled = errors.New("workflow: cancelled")
	// ErrEvicted: Evict or Close stopped the run, which goes on with the next one.
	ErrEvicted = errors.New("workflow: evicted")
	// ErrRunning: the workflow runs, and what was asked for needs that it doesn't.
	ErrRunning = errors.New("workflow: is running")
	// ErrClosed: the workflow is closed.
	ErrClosed = errkind.New("workflow: closed", errkind.ErrClosed)
	// ErrOptions: options make no sense.
	ErrOptions = errors.New("workflow: bad options")
	// ErrState: what was asked for can't be done to a workflow in its state.
	ErrState = errors.New("workflow: not in this state")
	// ErrNoStep: there is no such step.
	ErrNoStep = errkind.New("workflow: no such step", errkind.ErrNotFound)

	// ErrStorage: the store failed, or the actor belongs to somebody else by now. The run
	// was stopped where it was; it comes as a *StorageError.
	ErrStorage = errors.New("workflow: storage failed")
	// ErrDiverged: the history holds something else than what the code does; it comes as a
	// *DivergedError.
	ErrDiverged = errors.New("workflow: code and history differ")
	// ErrMisuse: the code of the workflow does what makes no sense, whatever is in the
	// history; it comes as a *MisuseError.
	ErrMisuse = errors.New("workflow: misuse")
	// ErrHistoryFull: the history has as many entries as it may, Options.MaxEntries; the
	// run was stopped where it was.
	ErrHistoryFull = errkind.New("workflow: history is full", errkind.ErrTooLarge)
)

// What a workflow's code gets from steps, branches and messages.
var (
	// ErrStepTimeout: an attempt at a step took longer than it may.
	ErrStepTimeout = errors.New("workflow: step timed out")
	// ErrInterrupted: the process ended during the last attempt at a step.
	ErrInterrupted = errors.New("workflow: step was interrupted")
	// ErrTooLarge: what was to be recorded, the output of a step for example, can't be
	// stored because of its size. The text says what, how large, and the limit.
	ErrTooLarge = errkind.New("workflow: too large", errkind.ErrTooLarge)
	// ErrPanic: the code of a step or a branch panicked.
	ErrPanic = errors.New("workflow: panic")
	// ErrTimedOut: no message came in time.
	ErrTimedOut = errors.New("workflow: no message in time")
	// ErrPrevious: a message was to be received while the one before is not completed.
	ErrPrevious = errors.New("workflow: previous message is not completed")
	// ErrCompleted: a message was completed before.
	ErrCompleted = errors.New("workflow: message is completed already")
)

// A StepError is the end of a step that has failed and isn't tried again. It wraps the
// Failure of its last attempt.
type StepError struct {
	Path     string // of the step, such as order/charge
	Attempts uint32
	Failure  *Failure
}

// Error names the step, the attempts and the reason.
func (e *StepError) Error() string {
	return fmt.Sprintf("workflow: step %s, attempt %d: %s", e.Path, e.Attempts, e.Failure.Message)
}

// Unwrap returns the Failure.
func (e *StepError) Unwrap() error { return e.Failure }

// A BranchError says how one branch of a Join or a Race failed.
type BranchError struct {
	Name    string
	Failure *Failure
}

// Error names the branch and the reason.
func (e *BranchError) Error() string { return fmt.Sprintf("branch %s: %s", e.Name, e.Failure.Message) }

// Unwrap returns the Failure.
func (e *BranchError) Unwrap() error { return e.Failure }

// A JoinError is the failure of a Join: at least one branch has failed, and all have
// ended. It wraps their errors.
type JoinError struct {
	Path     string
	Branches []*BranchError // those that failed, in the order of the code
}

// Error names the join and its failed branches.
func (e *JoinError) Error() string { return branchesText("join", e.Path, e.Branches) }

// Unwrap returns the errors of the branches.
func (e *JoinError) Unwrap() []error { return branchErrors(e.Branches) }

// A RaceError is the failure of a Race: no branch has succeeded. It wraps their errors.
type RaceError struct {
	Path     string
	Branches []*BranchError // all, in the order of the code
}

// Error names the race and its branches.
func (e *RaceError) Error() string { return branchesText("race", e.Path, e.Branches) }

// Unwrap returns the errors of the branches.
func (e *RaceError) Unwrap() []error { return branchErrors(e.Branches) }

func branchesText(what, path string, bs []*BranchError) string {
	text := fmt.Sprintf("workflow: %s %s", what, path)
	for i, b := range bs {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + b.Error()
	}
	return text
}

func branchErrors(bs []*BranchError) (errs []error) {
	for _, b := range bs {
		errs = append(errs, b)
	}
	return errs
}

// A FailedError is how a workflow failed. It wraps ErrFailed and the Failure.
type FailedError struct{ Failure *Failure }

// Error is the text of the failure.
func (e *FailedError) Error() string { return "workflow: failed: " + e.Failure.Message }

// Unwrap returns ErrFailed and the Failure.
func (e *FailedError) Unwrap() []error { return []error{ErrFailed, e.Failure} }

// A StorageError is why a run was stopped: it could not record what it did, or not read
// it. Nothing is wrong with the workflow; it goes on where its history ends with the next
// run, of this owner or another one. It wraps ErrStorage and the reason.
type StorageError struct{ Err error }

// Error is the text of the reason.
func (e *StorageError) Error() string { return "workflow: storage: " + e.Err.Error() }

// Unwrap returns ErrStorage and the reason.
func (e *StorageError) Unwrap() []error { return []error{ErrStorage, e.Err} }

// A DivergedError says where the history holds something else than what the code does:
// the code was changed in a way that a workflow under way can't follow, or it isn't
// deterministic. The run was stopped, and nothing of it was recorded from there on: with
// the right code the workflow goes on. It wraps ErrDiverged.
type DivergedError struct {
	Path string // of the entry
	Why  string // a clause
}

// Error names the place and says what differs.
func (e *DivergedError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrDiverged, e.Path, e.Why) }

// Unwrap returns ErrDiverged.
func (e *DivergedError) Unwrap() error { return ErrDiverged }

// A MisuseError says what the code of a workflow does wrong, for example that it uses one
// name twice in a scope. The run was stopped, and nothing of it was recorded from there
// on. It wraps ErrMisuse.
type MisuseError struct {
	Path string // of the entry
	Why  string // a clause
}

// Error names the place and says what is wrong.
func (e *MisuseError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrMisuse, e.Path, e.Why) }

// Unwrap returns ErrMisuse.
func (e *MisuseError) Unwrap() error { return ErrMisuse }

// A RollbackError says which step could not be undone. It wraps the reason.
type RollbackError struct {
	Path    string
	Failure *Failure
}

// Error names the step and the reason.
func (e *RollbackError) Error() string {
	return fmt.Sprintf("workflow: undo of %s: %s", e.Path, e.Failure.Message)
}

// Unwrap returns the reason.
func (e *RollbackError) Unwrap() error { return e.Failure }

// tooLarge returns err as an ErrTooLarge if it is about the size of an entry, else nil.
func tooLarge(err error) error {
	var size *history.SizeError
	if errors.As(err, &size) {
		return fmt.Errorf("%w: %s: %d %s, limit %d", ErrTooLarge, size.Path, size.Size, size.What, size.Limit)
	}
	return nil
}

// storageError returns err as a *StorageError.
func storageError(err error) error {
	var s *StorageError
	if errors.As(err, &s) {
		return err
	}
	return &StorageError{err}
}

// handleFailed says whether an error of a landing is about the store, and not about what
// was to land.
func handleFailed(err error) bool {
	for _, is := range []error{
		actorstore.ErrFenced, actorstore.ErrPoisoned, actorstore.ErrClosed, actorstore.ErrLeaseLost,
		actorstore.ErrQuota, actorstore.ErrCorrupt, history.ErrClosed,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
