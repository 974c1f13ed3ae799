package greenroom

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// A roster is the actors that a store has open in this process.
type roster struct {
	mu    sync.Mutex
	open  map[actorstore.ID]*Actor        // +checklocks:mu
	calls map[actorstore.ID]int           // of Actor, that aren't over  +checklocks:mu
	news  chan struct{}                   // closed when one is; nil while no visit waits for that  +checklocks:mu
	busy  map[actorstore.ID]chan struct{} // closed when the visit, or the Close, ends that has the actor  +checklocks:mu
}

// begin notes that Actor is called. What it returns is called at the end, with the actor or nil.
func (r *roster) begin(id actorstore.ID) (end func(*Actor)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.calls = map[actorstore.ID]*Actor{}, map[actorstore.ID]int{}
	}
	r.calls[id]++
	return func(a *Actor) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls[id]--; r.calls[id] == 0 {
			delete(r.calls, id)
		}
		if a != nil {
			r.open[id] = a
		}
		if r.news != nil {
			close(r.news)
			r.news = nil
		}
	}
}

// call waits until a call of Actor is over, if there is one of that actor. waited says whether there was.
func (r *roster) call(ctx context.Context, id actorstore.ID) (waited bool, err error) {
	r.mu.Lock()
	n := r.calls[id]
	if r.news == nil {
		r.news = make(chan struct{})
	}
	news := r.news
	r.mu.Unlock()
	if n == 0 {
		return false, nil
	}
	select {
	case <-news:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// leave notes that a is being closed: what wants the actor waits until the function that it returns is called.
func (r *roster) leave(a *Actor) (left func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := a.actor.ID()
	if r.open[id] != a {
		return func() {} // it is a visit's, or was closed before
	}
	delete(r.open, id)
	return r.hold(id)
}

// hold has what wants the actor wait until the function that it returns is called.
//
// +checklocks:r.mu
func (r *roster) hold(id actorstore.ID) (release func()) {
	busy := make(chan struct{})
	if r.busy == nil {
		r.busy = map[actorstore.ID]chan struct{}{}
	}
	r.busy[id] = busy
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, id)
		close(busy)
	}
}

// await waits until no visit has the actor open by itself, and it isn't being closed. waited says whether it had to.
func (r *roster) await(ctx context.Context, id actorstore.ID) (waited bool, err error) {
	for {
		r.mu.Lock()
		busy := r.busy[id]
		r.mu.Unlock()
		if busy == nil {
			return waited, nil
		}
		select {
		case <-busy:
			waited = true
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// claim returns the actor if it is open, and otherwise holds it for a visit, which calls release.
func (r *roster) claim(ctx context.Context, id actorstore.ID) (a *Actor, release func(), err error) {
	for {
		if _, err := r.await(ctx, id); err != nil {
			return nil, nil, err
		}
		r.mu.Lock()
		a, busy := r.open[id], r.busy[id]
		switch {
		case busy != nil:
			r.mu.Unlock()
			continue
		case a == nil:
			release = r.hold(id)
		}
		r.mu.Unlock()
		return a, release, nil
	}
}

// Visit runs fn with an actor that exists, for tools that act from outside of the code that owns it: with the handle that
// this Store has open, beside what else is done with that, or with one that is open for the call alone. Actor waits
// meanwhile for the end of the call. fn must not close the actor. An error of fn's is returned after what it had
// landed is on stable storage.
//
// Errors: fn's; ErrNotFound, of an actor that does not exist; ErrInUse, if a handle is open that isn't one of this Store, here
// or elsewhere; those of the engine.
func (s *Store) Visit(ctx context.Context, id actorstore.ID, fn func(a *Actor) error) error {
	for {
		a, release, err := s.roster.claim(ctx, id)
		if err != nil {
			return err
		}
		if release == nil {
			return fn(a)
		}
		lower, err := s.lower.Actor(ctx, id, &actorstore.ActorOptions{MustExist: true})
		if err == nil {
			defer release()
			return s.newActor(lower, lower.Name(), ActorOptions{}).visit(ctx, fn)
		}
		release()
		if errors.Is(err, ErrInUse) { // perhaps by a handle that Actor is about to return
			waited, werr := s.roster.call(ctx, id)
			if waited && werr == nil {
				continue
			}
			err = errors.Join(err, werr)
		}
		return fmt.Errorf("greenroom: visit actor %v: %w", id, err)
	}
}

// visit runs fn with an actor that is open for that alone.
func (a *Actor) visit(ctx context.Context, fn func(a *Actor) error) error {
	err := fn(a)
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
