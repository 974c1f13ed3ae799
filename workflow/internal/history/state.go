package history

import (
	"fmt"
	"slices"
)

// A State is what a workflow is at.
type State uint8

// The states of a workflow. Nothing stored is Pending.
const (
	Pending State = iota
	Running
	Sleeping
	Failed
	Completed
	Cancelled
	RollingBack
)

// String returns the text that is stored: "pending", "running", "sleeping", "failed",
// "completed", "cancelled" or "rolling_back".
func (s State) String() string { return word(s, states[:]) }

var states = [...]string{"pending", "running", "sleeping", "failed", "completed", "cancelled", "rolling_back"}

// parseState returns the State that has the text. Any other text is errCorrupt.
func parseState(text string) (State, error) {
	i := slices.Index(states[:], text)
	if i < 0 {
		return 0, fmt.Errorf("%w: %.80q is not the state of a workflow", errCorrupt, text)
	}
	return State(i), nil
}

// stored returns the text of the state that is to be stored, nil for none.
func (s State) stored() []byte {
	if s == Pending {
		return nil
	}
	return []byte(s.String())
}

// may reports whether a workflow in the state s may be put into the state to:
//
//   - Cancelled stays, but for Tx.Reset, if it is said;
//   - RollingBack ends as Failed or Cancelled;
//   - nothing goes back to Pending, which only Tx.Reset does.
//
// A workflow that failed or completed may run again, over its history. To stay is
// allowed.
func (s State) may(to State) bool {
	switch {
	case s == to:
		return true
	case s == Cancelled || to == Pending || int(to) >= len(states):
		return false
	case s == RollingBack:
		return to == Failed || to == Cancelled
	}
	return true
}

// over says that a workflow in the state has nothing more to do.
func (s State) over() bool { return s == Completed || s == Failed || s == Cancelled }

// A transitionError says between which states a workflow can't go. It wraps ErrTransition,
// and ErrCancelled if that is why.
type transitionError struct{ From, To State }

// Error names both.
func (e *transitionError) Error() string {
	return fmt.Sprintf("history: a workflow that is %v can't become %v", e.From, e.To)
}

// Unwrap returns ErrTransition, or both.
func (e *transitionError) Unwrap() []error {
	if e.From == Cancelled {
		return []error{ErrTransition, ErrCancelled}
	}
	return []error{ErrTransition}
}
