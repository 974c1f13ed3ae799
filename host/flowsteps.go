package host

import (
	"context"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow"
)

// StepTurn is a step of an actor's workflow that is a turn of the actor. All that fn does in it, with SQL, keys, state, timers,
// messages to this actor and to others, and events to connections, lands in one commit with the result of the step: exactly
// once. The turn waits for those before it, as the turn of a call does. If fn fails nothing of it lands, and the step is tried
// again (workflow.StepOptions); fn must not call Turn: greenroom.ErrNested.
//
// The workflow must be that of a Type: in any other, the step fails with ErrNotAwake.
func StepTurn[T any](c *workflow.Context, name string, fn func(c *Context) (T, error)) (T, error) {
	return StepTurnWith(c, name, nil, fn)
}

// StepTurnWith is StepTurn with options; nil opts are the zero workflow.StepOptions.
func StepTurnWith[T any](c *workflow.Context, name string, opts *workflow.StepOptions, fn func(c *Context) (T, error)) (T, error) {
	return workflow.StepWithinWith(c, name, opts, func(ctx context.Context, land func(*batch.Batch, T) error) error {
		return Turn(ctx, func(c *Context) error {
			v, err := fn(c)
			if err != nil {
				return err
			}
			return land(c.Batch(), v)
		})
	})
}

// UndoTurn returns an Undo that is a turn of the actor: fn gets the result of the step, and what it does lands in one commit
// with the record that the step was undone: exactly once. See StepTurn.
func UndoTurn[T any](fn func(c *Context, out T) error) workflow.Undo {
	return workflow.UndoWithin(func(ctx context.Context, out T, land func(*batch.Batch) error) error {
		return Turn(ctx, func(c *Context) error {
			if err := fn(c, out); err != nil {
				return err
			}
			return land(c.Batch())
		})
	})
}
