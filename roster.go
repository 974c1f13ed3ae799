package greenroom

import (
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
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
