package workflow

import "context"

// A StepInfo says which attempt at which step is made.
type StepInfo struct {
	Path string // of the step, such as order/charge
	// ID is the step's own, the same for all its attempts, in all runs, and for its Undo: a key by which a service
	// knows that a request was made before. A step that is done again after it was undone has a new one, and so has
	// one that is done again after ReplayFrom, Context.ContinueAsNew or Runner.StartAgain.
	ID      string
	Attempt uint32 // from 1
}

type stepKey struct{}

// StepInfoOf returns what an attempt's context says of it; false for any other context.
func StepInfoOf(ctx context.Context) (StepInfo, bool) {
	s, ok := ctx.Value(stepKey{}).(StepInfo)
	return s, ok
}
