package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Evict stops the run, if there is one, at its next call: to be continued by another run,
// in this process or elsewhere. The contexts of its steps are over at once; what one
// returns all the same is recorded, and an attempt that is cut off doesn't count.
func (w *Workflow) Evict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != nil {
		w.run.halt(ErrEvicted)
	}
}

// Cancel ends the workflow for ever, durably, and stops the run if there is one. Nothing
// that is under way can change that, and nothing is undone: code that must clean up waits
// for a message that says so. Messages that are not completed become visible again.
//
// A second Cancel does nothing. If the workflow is complete or failed the error is ErrState.
func (w *Workflow) Cancel(ctx context.Context) error {
	if w.h.State() == history.Cancelled {
		return nil
	}
	if err := w.end(ctx, func(tx *history.Tx) error { return tx.SetState(history.Cancelled) }, nil); err != nil {
		return controlError(err)
	}
	w.meter.Count(metricCancelled, 1)
	w.mu.Lock()
	if w.run != nil {
		w.run.halt(ErrCancelled)
	}
	w.mu.Unlock()
	w.disarm()
	return nil
}

// Restart starts a workflow that is over anew, with the input that it has, as Runner.StartAgain does with another one. It needs no code, so
// that tools can do it. One that isn't over, or was never started, is ErrState.
func (w *Workflow) Restart(ctx context.Context) error {
	return anew{w}.commit(ctx, func(b *batch.Batch) error {
		input := w.h.Input()
		if !over(State(w.h.State())) || input == nil {
			return ErrState
		}
		return anew{w}.stage(b, input)
	})
}

func (w *Workflow) disarm() {
	w.arming.Lock()
	defer w.arming.Unlock()
	w.source.Set(time.Time{})
}

// controlError returns an error of storing what a method of control changes.
func controlError(err error) error {
	switch {
	case errors.Is(err, ErrState), errors.Is(err, ErrRunning), errors.Is(err, ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, history.ErrCancelled):
		return ErrCancelled
	case errors.Is(err, history.ErrTransition):
		return fmt.Errorf("%w: %w", ErrState, err)
	case errors.Is(err, history.ErrClosed):
		return ErrClosed
	}
	return storageError(err)
}

// change lands what fn makes of the history while the workflow isn't running, and makes it due
// to run again. Where commits are small, and fn removes nothing, entries land before the rest,
// in the order in which fn puts them: if fn is called again it finds those that landed.
func (w *Workflow) change(ctx context.Context, fn func(s *history.Snapshot, tx *history.Tx, b *batch.Batch) error) error {
	if err := w.claim(); err != nil {
		return err
	}
	err := w.changeNow(ctx, fn)
	w.release()
	if err == nil {
		w.arming.Lock()
		defer w.arming.Unlock()
		w.due(w.clock.Now())
	}
	return err
}

func (w *Workflow) changeNow(ctx context.Context, fn func(s *history.Snapshot, tx *history.Tx, b *batch.Batch) error) error {
	// What a run that failed had deferred isn't wanted.
	if err := w.h.Reload(ctx); err != nil {
		return controlError(err)
	}
	if w.h.State() == history.Cancelled {
		return ErrCancelled
	}
	tx := w.h.Begin()
	var b batch.Batch
	defer b.Abort(nil)
	if err := fn(w.h.Snapshot(), tx, &b); err != nil {
		return err
	}
	if err := w.ahead(ctx, tx); err != nil {
		return controlError(err)
	}
	tx.Stage(&b)
	if err := w.actor.Commit(ctx, &b); err != nil {
		return controlError(err)
	}
	return nil
}

// ahead lands entries of tx that are too many for one commit where commits are small.
func (w *Workflow) ahead(ctx context.Context, tx *history.Tx) error {
	for w.small {
		part := tx.Split(maxBehind)
		if part == nil {
			break
		}
		if err := part.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Recover lets a failed workflow go on: failed steps and branches are tried anew, with all
// their attempts, and steps that were undone are done again, with new IDs. It doesn't run
// the workflow. Errors: ErrState unless the workflow has failed, ErrRunning while it runs.
func (w *Workflow) Recover(ctx context.Context) error {
	return w.change(ctx, func(s *history.Snapshot, tx *history.Tx, _ *batch.Batch) error {
		if s.State != history.Failed {
			return fmt.Errorf("%w: it is %v", ErrState, s.State)
		}
		m := mend(s, tx, w.opts.NewID)
		for _, e := range s.Entries {
			m.renew(e)
		}
		return m.finish()
	})
}

// Resume tries failed steps anew, with all their attempts, that wait for Resume
// (StepOptions.Pause) or for their next attempt. While the workflow runs these are
// only the ones that wait for Resume.
func (w *Workflow) Resume(ctx context.Context) error {
	w.mu.Lock()
	r := w.run
	w.mu.Unlock()
	if r != nil {
		return r.resume(ctx)
	}
	return w.change(ctx, func(s *history.Snapshot, tx *history.Tx, _ *batch.Batch) error {
		for _, e := range s.Entries {
			if k, ok := e.Kind.(history.Step); ok && e.Metadata != nil && e.Metadata.Status == history.StatusFailed {
				if err := resumed(tx, e, k); err != nil {
					return err
				}
			}
		}
		return tx.SetWaits(toRun)
	})
}

// resumed has tx give a step all its attempts.
func resumed(tx *history.Tx, e history.Entry, k history.Step) error {
	m := *e.Metadata
	m.Attempts, m.LastAttemptAt, m.Status = 0, 0, history.StatusPending
	err := tx.Put(history.Entry{ID: e.ID, Location: e.Location, Kind: k})
	if err == nil {
		err = tx.PutMetadata(e.Location, m)
	}
	return err
}

// resume is Resume of a workflow that runs.
func (r *run) resume(ctx context.Context) error {
	tx := r.wf.h.Begin()
	r.mu.Lock()
	var at []history.Location
	for p := range r.waits {
		if p.For == history.WaitResume {
			at = append(at, p.at)
		}
	}
	r.mu.Unlock()
	for _, l := range at {
		e, ok := r.wf.h.Get(l)
		k, isStep := e.Kind.(history.Step)
		if !ok || !isStep || e.Metadata == nil {
			continue
		}
		if err := resumed(tx, e, k); err != nil {
			return controlError(err)
		}
	}
	err := r.wf.ahead(ctx, tx)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return controlError(err)
	}
	r.wakePaused()
	return nil
}

// ReplayFrom has the workflow go on from before a step, which is chosen by its path or its
// ID: what was recorded from there on is forgotten, in the order of time, and the code runs
// over what is left. Of a step in a loop the whole innermost loop is forgotten. Effects
// that the steps had stay, and messages that were received are gone, but for those that
// were not completed.
//
// Errors: ErrNoStep; ErrRunning; ErrCancelled; ErrState for one that is being rolled back.
func (w *Workflow) ReplayFrom(ctx context.Context, step string) error {
	return w.change(ctx, func(s *history.Snapshot, tx *history.Tx, b *batch.Batch) error {
		if s.State == history.RollingBack {
			return fmt.Errorf("%w: it is %v", ErrState, s.State)
		}
		all := s.ByAge()
		first, ok := replayed(s, all, step)
		if !ok {
			return fmt.Errorf("%w: %.80q", ErrNoStep, step)
		}
		m := mend(s, tx, w.opts.NewID)
		gone := map[history.Location]bool{}
		for _, e := range all[first:] {
			gone[e.Location] = true
			m.again(e.Location)
			inside := append(w.h.In(e.Location), e)
			if err := w.giveBackAll(context.WithoutCancel(ctx), b, inside, nil); err != nil {
				return err
			}
			tx.Delete(e.Location)
		}
		left := *s
		left.Entries = nil
		for _, e := range s.Entries {
			if gone[e.Location] || within(e.Location, gone) {
				continue
			}
			left.Entries = append(left.Entries, e)
			if e.Metadata != nil && e.Metadata.RollbackCompletedAt != nil {
				m.renew(e)
			}
		}
		m.s = &left
		return m.finish()
	})
}

// replayed returns the index of the first entry that is forgotten when a step is replayed.
func replayed(s *history.Snapshot, all []history.Entry, step string) (first int, ok bool) {
	at := map[history.Location]int{}
	target := -1
	for i, e := range all {
		at[e.Location] = i
		if _, isStep := e.Kind.(history.Step); isStep && (e.ID == step || s.Path(e.Location) == step) {
			target = i
		}
	}
	if target < 0 {
		return 0, false
	}
	for l := all[target].Location; ; {
		parent, _, ok := l.Parent()
		if !ok {
			return target, true
		}
		if i, ok := at[parent]; ok {
			if _, loop := all[i].Kind.(history.Loop); loop {
				return i, true
			}
		}
		l = parent
	}
}

// within says whether l lies in one of the locations.
func within(l history.Location, in map[history.Location]bool) bool {
	for {
		parent, _, ok := l.Parent()
		if !ok {
			return false
		}
		if in[parent] {
			return true
		}
		l = parent
	}
}
