package workflow

import (
	"context"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Verify runs the code over the history as far as that goes, does nothing and records
// nothing, and returns what differs: ErrDiverged, or ErrMisuse. So it says
// whether workflows that are under way can go on with new code. Other errors are those of
// Run.
//
// What is not in the history is not seen: completed loops and branches are not run again,
// and iterations that were forgotten neither. Steps, their Undo and Send do nothing; the
// code between them runs.
func (w *Workflow) Verify(ctx context.Context) error {
	if w.fn == nil {
		return ErrState
	}
	if err := w.claim(); err != nil {
		return err
	}
	defer w.release()
	if w.h.Input() == nil {
		return ErrNotStarted
	}
	var unused []undoing
	r := w.newRun(ctx, false)
	r.undoing, r.verifying = &unused, true
	defer r.kill(errCollected)
	w.setRun(r)
	r.start(w.h.Input())
	r.wait(ctx)
	w.setRun(nil)
	switch reason := r.stopped(); reason {
	case nil:
		return w.verdict(r)
	case ErrEvicted:
		return evicted(ctx)
	default:
		return reason
	}
}

// verdict compares the end of the code with that of the history.
func (w *Workflow) verdict(r *run) error {
	r.mu.Lock()
	ended, failed := r.ended, r.err != nil
	r.mu.Unlock()
	why := ""
	switch s := w.h.State(); {
	case s == history.Completed && !ended:
		why = "the workflow has completed, and the code goes on"
	case s == history.Completed && failed:
		why = "the workflow has completed, and the code fails: " + r.err.Error()
	case (s == history.Failed || s == history.RollingBack) && !ended:
		why = "the workflow has failed, and the code goes on"
	case (s == history.Failed || s == history.RollingBack) && !failed:
		why = "the workflow has failed, and the code completes"
	}
	if why != "" {
		return diverged(".", why)
	}
	return nil
}
