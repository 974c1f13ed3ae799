package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/workflow"
)

var (
	// CancelWorkflow cancels the workflow, for ever: see workflow.Workflow.Cancel.
	CancelWorkflow = controls("workflow/cancel", "Cancel the workflow, for ever.", func(ctx context.Context, _ string, w *workflow.Workflow, _ *None) error { return w.Cancel(ctx) })
	// RetryWorkflow tries the steps that failed again, with all their attempts: of a workflow that has failed, or waits for a
	// next attempt or to be resumed.
	RetryWorkflow = controls("workflow/retry", "Try the steps of the workflow that failed again.", retry)
	// RestartWorkflow starts a workflow that is over anew, with the input that it has: see workflow.Workflow.Restart.
	RestartWorkflow = controls("workflow/restart", "Start a workflow that is over anew, with its input.", restart)
	// ReplayWorkflow has the workflow go on from before a step: see workflow.Workflow.ReplayFrom.
	ReplayWorkflow = controls("workflow/replay", "Have the workflow go on from before a step.", replay)
)

// ReplayWorkflowIn is the request of ReplayWorkflow.
type ReplayWorkflowIn struct {
	Step string `json:"step"` // its path or its id
}

// controls returns the verb that fn is of a workflow.
func controls[In any](name, what string, fn func(ctx context.Context, actor string, w *workflow.Workflow, in *In) error) *Verb[In, None] {
	return &Verb[In, None]{name, what, func(ctx context.Context, a *greenroom.Actor, actor string, in *In) (*None, error) {
		err := a.ControlWorkflow(ctx, func(w *workflow.Workflow) error {
			s := w.Snapshot()
			if s.Empty() {
				return &Error{Code: "not_found", Message: "the actor " + actor + " has no workflow"}
			}
			err := fn(ctx, actor, w, in)
			switch {
			case errors.Is(err, workflow.ErrCancelled):
				return &Error{Code: "conflict", Message: "the workflow of " + actor + " is cancelled, for ever: only workflow again starts it anew"}
			case errors.Is(err, workflow.ErrState):
				return &Error{Code: "conflict", Message: fmt.Sprintf("the workflow of %s is %s, and this can't be done to it", actor, s.State)}
			}
			return err
		})
		return &None{}, err
	}}
}

func retry(ctx context.Context, _ string, w *workflow.Workflow, _ *None) error {
	switch s := w.Snapshot(); {
	case s.State == workflow.Failed:
		return w.Recover(ctx)
	case s.State == workflow.Completed || s.State == workflow.RollingBack || !waitsForAttempt(s):
		return workflow.ErrState
	}
	return w.Resume(ctx)
}

// waitsForAttempt says whether a step failed and will be tried again.
func waitsForAttempt(s *workflow.Snapshot) bool {
	for _, e := range s.Entries {
		if e.Metadata != nil && e.Metadata.Status == workflow.StatusFailed {
			return true
		}
	}
	return s.State == workflow.Cancelled // which says so itself
}

func restart(ctx context.Context, actor string, w *workflow.Workflow, _ *None) error {
	if s := w.Snapshot(); s.Input == nil && workflow.Over(s.State) != nil {
		return &Error{Code: "conflict", Message: "the workflow of " + actor + " has no input: its program has to start it"}
	}
	return w.Restart(ctx)
}

func replay(ctx context.Context, actor string, w *workflow.Workflow, in *ReplayWorkflowIn) error {
	err := w.ReplayFrom(ctx, in.Step)
	if errors.Is(err, workflow.ErrNoStep) {
		return say(err, "the workflow of %s has no step %s", actor, in.Step)
	}
	return err
}
