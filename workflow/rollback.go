package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// RollbackCheckpoint says that from here on steps may have an Undo: if the workflow fails
// later, those that have completed are undone, the last one first.
//
// What has to be undone is found by running the code over its history once more, as far
// as that goes. So it is not found in iterations before the present one, in any of a loop
// that has ended, in branches that have lost a race, and in the history before
// ContinueAsNew.
func (c *Context) RollbackCheckpoint(name string) {
	p := c.enter(name)
	defer c.end()
	if _, ok := kind[history.Checkpoint](p); !ok {
		if c.r.undoing != nil {
			c.stopCollecting()
		}
		p.must(p.record(history.Checkpoint{Name: name}, p.completed(), withNext))
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.guarded = true
}

func (r *run) isGuarded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.guarded
}

// An undoing is a step that has completed, and its Undo.
type undoing struct {
	at   history.Location
	id   string
	undo Undo
	out  []byte
}

// collect notes what a completed step has to be undone with.
func (r *run) collect(s *stepCall, out []byte) {
	if r.undoing == nil || s.opts.Undo.isZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.undoing = append(*r.undoing, undoing{s.at, s.entry.ID, s.opts.Undo, out})
}

// stopCollecting ends the goroutine: the code has come to where the workflow is.
func (c *Context) stopCollecting() {
	if c.r.verifying {
		for p := c; p != nil && p.life == c.life; p = p.parent {
			p.passed()
		}
	}
	leave()
}

// rollback undoes what a failed workflow has done. What is left is tried again by the next
// run, if an error is returned.
func (w *Workflow) rollback(ctx context.Context) error {
	var todo []undoing
	r := w.newRun(ctx, false)
	r.undoing = &todo
	w.setRun(r)
	defer w.setRun(nil)
	defer r.kill(errCollected)
	r.start(w.h.Input())
	r.wait(ctx)
	defer context.AfterFunc(ctx, func() { r.halt(ErrEvicted) })()
	if reason := r.stopped(); reason != nil {
		return reason
	}
	for i := len(todo) - 1; i >= 0; i-- {
		if err := r.undo(&todo[i]); err != nil {
			return err
		}
	}
	return nil
}

// undo undoes a step, unless that has been done.
func (r *run) undo(u *undoing) error {
	w := r.wf
	e, ok := w.h.Get(u.at)
	if !ok || e.Metadata == nil || e.Metadata.RollbackCompletedAt != nil {
		return nil
	}
	o := u.undo.opts
	most, backoff := uint32(max(1, cmp.Or(o.MaxAttempts, defaultAttempts))), max(0, cmp.Or(o.Backoff, defaultBackoff))
	for n := uint32(1); ; n++ {
		if err := context.Cause(r.life); err != nil {
			return err
		}
		landed, err := r.tryUndo(u, StepInfo{w.h.Path(u.at), u.id, n})
		switch {
		case errors.Is(err, ErrStorage):
			return err
		case err == nil && landed:
			return nil
		case err == nil:
			return r.mark(u, undoneAt(r.wf.now()))
		case context.Cause(r.life) != nil:
			return context.Cause(r.life)
		case n >= most || final(err):
			return r.notUndone(u, err)
		}
		if err := r.pause(backoff); err != nil {
			return err
		}
		backoff = min(2*backoff, defaultMaxBackoff)
	}
}

// pause waits between two attempts.
func (r *run) pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.life.Done():
		return context.Cause(r.life)
	}
}

var errUndoGoexit = errors.New("workflow: the undo has ended its goroutine (runtime.Goexit)")

// tryUndo makes one attempt, and says whether it has landed already.
func (r *run) tryUndo(u *undoing, info StepInfo) (landed bool, err error) {
	ctx := context.WithValue(r.life, stepKey{}, info)
	if d := cmp.Or(u.undo.opts.Timeout, defaultTimeout); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, ErrStepTimeout)
		defer cancel()
	}
	// On a goroutine of its own: an undo that ends its goroutine must not end the one that runs
	// the workflow.
	over := make(chan struct{})
	go func() {
		err = errUndoGoexit
		defer close(over)
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{v, debug.Stack()}
			}
		}()
		err = u.undo.do(ctx, r.wf.opts.Codec, u.out, func(b *batch.Batch) error {
			b.OnCommit(func() { landed = true })
			return stageMark(r, u, b, undoneAt(r.wf.now()))
		})
	}()
	<-over
	switch {
	case errors.Is(err, errLeft):
		err = context.Cause(r.life)
	case err == nil && u.undo.lands && !landed:
		err = Permanent(errors.New("workflow: the undo has returned, and its batch did not land"))
	}
	if broken := r.wf.actor.Err(); err != nil && broken != nil {
		err = storageError(broken)
	}
	return landed && err == nil, err
}

// undoneAt says in the metadata of a step that it was undone.
func undoneAt(now history.Millis) func(*history.Metadata) {
	return func(m *history.Metadata) { m.RollbackCompletedAt, m.RollbackError = &now, nil }
}

// notUndone records why a step could not be undone, and returns that.
func (r *run) notUndone(u *undoing, cause error) error {
	f := r.wf.failures.of(cause)
	text := f.text()
	err := r.mark(u, func(m *history.Metadata) { m.RollbackError = &text })
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s: %w", errRollback, r.wf.h.Path(u.at), f)
}

// stageMark has a change of a step's metadata land with b.
func stageMark(r *run, u *undoing, b *batch.Batch, change func(*history.Metadata)) error {
	e, ok := r.wf.h.Get(u.at)
	if !ok || e.Metadata == nil {
		return storageError(fmt.Errorf("entry %s is gone", r.wf.h.Path(u.at)))
	}
	m := *e.Metadata
	change(&m)
	tx := r.wf.h.Begin()
	if err := tx.PutMetadata(u.at, m); err != nil {
		return storageError(err)
	}
	b.Late(func(*batch.Batch) error { // as Context.mayWrite
		if err := context.Cause(r.life); r.cancelled() || err != nil && err != ErrEvicted {
			return errLeft
		}
		return nil
	})
	tx.Stage(b)
	return nil
}

// mark changes a step's metadata.
func (r *run) mark(u *undoing, change func(*history.Metadata)) error {
	var b batch.Batch
	defer b.Abort(nil)
	if err := stageMark(r, u, &b, change); err != nil {
		return err
	}
	err := r.wf.actor.Commit(context.WithoutCancel(r.life), &b)
	var limit *batch.LimitError
	switch {
	case err == nil || errors.As(err, &limit):
		return err
	case errors.Is(err, errLeft):
		return context.Cause(r.life)
	}
	return storageError(err)
}
