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
	// ErrFailed: the workflow has failed; it comes with the Failure.
	ErrFailed = errors.New("workflow: failed")
	// ErrCancelled: the workflow was cancelled, for ever: StartAgain alone starts it anew.
	ErrCancelled = errors.New("workflow: cancelled")
	// ErrOver: the workflow is over, whether it returned or was cancelled, and Start does nothing. StartAgain starts it anew.
	ErrOver = errors.New("workflow: it is over")
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
	// ErrNoStep: the step doesn't exist.
	ErrNoStep = errkind.New("workflow: no such step", errkind.ErrNotFound)

	// ErrStorage: the store failed, or the actor belongs to another owner by now. The run
	// was stopped where it was, and the next one goes on there; it comes with the reason.
	ErrStorage = errors.New("workflow: storage failed")
	// ErrDiverged: the history holds something else than what the code does, because the
	// code was changed in a way that a workflow under way can't follow, or isn't
	// deterministic. The text names the entry. The run was stopped, and nothing of it was
	// recorded from there on: with the right code the workflow goes on.
	ErrDiverged = errors.New("workflow: code and history differ")
	// ErrMisuse: the code of the workflow does what makes no sense, whatever is in the
	// history, such as using one name twice in a scope. The text names the place. The run was
	// stopped, and nothing of it was recorded from there on.
	ErrMisuse = errors.New("workflow: misuse")
	// ErrHistoryFull: the history has as many entries as it may, Options.MaxEntries; the
	// run was stopped where it was.
	ErrHistoryFull = errkind.New("workflow: history is full", errkind.ErrTooLarge)
)

// errRollback is why a run ends whose rollback can't go on; it comes with the step and the
// Failure of its Undo.
var errRollback = errors.New("workflow: undo")

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

// tooLarge returns err as an ErrTooLarge if it is about the size of an entry, else nil.
func tooLarge(err error) error {
	var size *history.SizeError
	if errors.As(err, &size) {
		return fmt.Errorf("%w: %s: %d %s, limit %d", ErrTooLarge, size.Path, size.Size, size.What, size.Limit)
	}
	return nil
}

// storageError returns err such that it wraps ErrStorage: a run could not record what it did,
// or not read it. Nothing is wrong with the workflow, which goes on where its history ends
// with the next run, of this owner or another one.
func storageError(err error) error {
	if errors.Is(err, ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

// diverged returns an ErrDiverged that names the place in the history.
func diverged(path, why string) error { return fmt.Errorf("%w: %s: %s", ErrDiverged, path, why) }

// misused returns an ErrMisuse that names the place in the code.
func misused(path, why string) error { return fmt.Errorf("%w: %s: %s", ErrMisuse, path, why) }

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

// over says that a workflow in the state has nothing more to do.
func over(s State) bool { return s == Completed || s == Failed || s == Cancelled }

// Over returns the error with which Start refuses a workflow in a state, an ErrOver, and nil for one that isn't over.
func Over(s State) error {
	if over(s) {
		return &overError{s}
	}
	return nil
}

// An overError says how a workflow has ended that was to be started.
type overError struct{ state State }

func (e *overError) Error() string {
	return fmt.Sprintf("%v: it is %v; StartAgain, or StartWorkflowAgain in a turn of a host, starts it anew", ErrOver, e.state)
}

// Unwrap returns ErrOver, and ErrCancelled if that is how.
func (e *overError) Unwrap() []error {
	if e.state == Cancelled {
		return []error{ErrOver, ErrCancelled}
	}
	return []error{ErrOver}
}
