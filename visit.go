package greenroom

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// Visit runs fn with an actor that exists, for tools that act from outside of the code that owns it: with the handle that
// this Store has open, beside what else is done with that, or with one that is open for the call alone. Actor waits
// meanwhile for the end of the call. The context of fn ends with ctx, and when the program closes the handle, which waits for fn. fn must not
// close the actor. An error of fn's is returned after what it had landed is on stable storage.
//
// Errors: fn's; ErrNotFound, of an actor that does not exist; ErrInUse, if a handle is open that isn't one of this Store, here
// or elsewhere; those of the engine.
func (s *Store) Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *Actor) error) error {
	for {
		visit, a, release, err := s.roster.claim(ctx, id)
		if err != nil {
			return err
		}
		if a != nil {
			defer release()
			return fn(visit, a)
		}
		lower, err := s.lower.Actor(ctx, id, &actorstore.ActorOptions{MustExist: true})
		if err == nil {
			defer release()
			return s.newActor(lower, lower.Name(), ActorOptions{}).visit(ctx, fn)
		}
		release()
		if errors.Is(err, ErrInUse) { // perhaps by a handle that Actor is about to return
			had, werr := s.roster.call(ctx, id)
			if had && werr == nil {
				continue
			}
			err = errors.Join(err, werr)
		}
		return fmt.Errorf("greenroom: visit actor %v: %w", id, err)
	}
}

// visit runs fn with an actor that is open for that alone.
func (a *Actor) visit(ctx context.Context, fn func(ctx context.Context, a *Actor) error) error {
	err := fn(ctx, a)
	if a.Err() == nil {
		err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, a.Close())
}

// ControlWorkflow runs fn with the workflow of the actor, to look at it and to control it: with the one that is open, or with one
// without its code, which can't be run. What fn does to it is on stable storage when its methods return. fn must not
// close the Workflow, nor keep it.
//
// Errors: fn's; ErrClosed; those of workflow.Attach.
func (a *Actor) ControlWorkflow(ctx context.Context, fn func(w *workflow.Workflow) error) error {
	if w := a.running(); w != nil {
		return fn(w)
	}
	w, err := OpenWorkflow(ctx, a, noCode, nil)
	if err != nil {
		return err
	}
	return errors.Join(fn(w.Workflow), a.closeWorkflow(w.Workflow))
}

// noCode is the workflow function of ControlWorkflow, which isn't run.
func noCode(*workflow.Context, struct{}) (struct{}, error) { return struct{}{}, workflow.ErrState }

// closeWorkflow closes a workflow before its actor.
func (a *Actor) closeWorkflow(w *workflow.Workflow) error {
	err := w.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workflow == w {
		a.workflow = nil
	}
	return err
}
