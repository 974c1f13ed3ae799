package greenroom

import (
	"context"
	"errors"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow"
)

// RunWorkflow runs the workflow fn in an actor until it is over, and returns its result.
// The first call gives it its input. After a crash, or when ctx was done, the next call goes
// on where its history ends; when it is over already the call returns what it returned
// (OpenWorkflow and workflow.Runner.StartAgain start it anew). It has the actor's queue, and steps change the actor by StepTx.
//
// Errors: those of OpenWorkflow, and of workflow.Runner's Start and Live.
func RunWorkflow[In, Out any](ctx context.Context, a *Actor, fn workflow.Func[In, Out], in In) (out Out, err error) {
	if err := a.outside(ctx); err != nil {
		return out, err // its steps would wait for this transaction
	}
	w, err := OpenWorkflow(ctx, a, fn, nil)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, w.Close())
		a.workflow.CompareAndSwap(w.Workflow, nil)
	}()
	if err := w.Start(ctx, in); err != nil && !errors.Is(err, workflow.ErrOver) {
		return out, err
	}
	return w.Live(ctx)
}

// OpenWorkflow returns the workflow of an actor, with fn as its code, to run it and to look
// at it and control it beside that. Actor.Close closes it, unless the caller does. There is
// one at a time: another is actorstore.ErrKept. The opening ends with ctx, and with Actor.Close. Nil opts are the zero WorkflowOptions.
func OpenWorkflow[In, Out any](ctx context.Context, a *Actor, fn workflow.Func[In, Out], opts *WorkflowOptions) (w *workflow.Runner[In, Out], err error) {
	q, err := a.Queue(ctx)
	if err != nil {
		return nil, err
	}
	o := orZero(opts)
	o.Env, o.Queue = partEnv(a.log, a), q
	o.RunContext = func(ctx context.Context) context.Context {
		if u, _ := ctx.Value(updaterKey{}).(updaterOf); u.actor != a { // none, or that of another actor's step
			ctx = withUpdater(ctx, a, a.Update)
		}
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	self := &opening{make(chan struct{}), cancel}
	a.mu.Lock()
	if a.ending {
		a.mu.Unlock()
		cancel()
		return nil, ErrClosed
	}
	a.workflows = append(a.workflows, self)
	a.mu.Unlock()
	defer func() { // also if it panics
		a.mu.Lock()
		defer a.mu.Unlock()
		a.workflows = slices.DeleteFunc(a.workflows, func(o *opening) bool { return o == self })
		if w != nil {
			a.workflow.Store(w.Workflow)
		} else if a.ending {
			err = errors.Join(ErrClosed, err)
		}
		cancel()
		close(self.done)
	}()
	return workflow.Open(ctx, a.actor, fn, &o)
}

// StepTx is a step whose effect is in the actor: fn runs in a transaction (see Actor.Update),
// with which the result of the step lands, so that it is done exactly once.
func StepTx[T any](c *workflow.Context, name string, fn func(tx *Tx) (T, error)) (T, error) {
	return StepTxWith(c, name, nil, fn)
}

// StepTxWith is StepTx with options; nil opts are the zero workflow.StepOptions.
func StepTxWith[T any](c *workflow.Context, name string, opts *workflow.StepOptions, fn func(tx *Tx) (T, error)) (T, error) {
	return workflow.StepWithinWith(c, name, opts, func(ctx context.Context, land func(*batch.Batch, T) error) error {
		return update(ctx, func(tx *Tx) error {
			v, err := fn(tx)
			if err != nil {
				return err
			}
			return land(tx.Batch(), v)
		})
	})
}

// UndoTx is workflow.UndoStep for what is undone in the actor: fn runs in a transaction, with
// which it lands that the step was undone, so that it is done exactly once.
func UndoTx[T any](fn func(tx *Tx, out T) error) workflow.Undo {
	return workflow.UndoWithin(func(ctx context.Context, out T, land func(*batch.Batch) error) error {
		return update(ctx, func(tx *Tx) error {
			if err := fn(tx, out); err != nil {
				return err
			}
			return land(tx.Batch())
		})
	})
}
