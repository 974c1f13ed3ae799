package greenroom

import (
	"context"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A roster is the actors that a store has open in this process. It knows nothing of them but that each is one value.
type roster struct {
	mu     sync.Mutex
	open   map[actorstore.ID]any   // +checklocks:mu
	calls  map[actorstore.ID]int   // of Actor, that aren't over  +checklocks:mu
	news   chan struct{}           // closed when one is; nil while no visit waits for that  +checklocks:mu
	busy   map[actorstore.ID]*hold // by the visit, or the Close, that has the actor  +checklocks:mu
	visits map[any][]*visit        // of actors that are open  +checklocks:mu
	ending map[any]func()          // of actors that are being closed: lets others have them  +checklocks:mu
}

// A visit is a call of Visit with an actor that the program has open.
type visit struct {
	cancel context.CancelFunc
	over   chan struct{}
}

// A hold keeps others from an actor that isn't open.
type hold struct {
	over   chan struct{} // closed when it is
	opened bool          // by a call of Actor meanwhile, which was in front of it  +checklocks:roster.mu
}

// begin notes that Actor is called. What it returns is called at the end, with the actor, or nil.
func (r *roster) begin(id actorstore.ID) (end func(a any)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.calls = map[actorstore.ID]any{}, map[actorstore.ID]int{}
		r.visits, r.ending = map[any][]*visit{}, map[any]func(){}
	}
	r.calls[id]++
	return func(a any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls[id]--; r.calls[id] == 0 {
			delete(r.calls, id)
		}
		if a != nil {
			r.open[id] = a
			if h := r.busy[id]; h != nil {
				h.opened = true
			}
		}
		if r.news != nil {
			close(r.news)
			r.news = nil
		}
	}
}

// yield lets others have an actor, and waits until a call of Actor is over that is in front of the hold, if there is one. had says whether there is or was.
func (r *roster) yield(ctx context.Context, id actorstore.ID, h *hold) (had bool, err error) {
	r.mu.Lock()
	n, opened := r.calls[id], h.opened
	if r.news == nil {
		r.news = make(chan struct{})
	}
	news := r.news
	r.release(id, h)
	r.mu.Unlock()
	if n == 0 || opened {
		return opened, nil
	}
	select {
	case <-news:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// leave notes that a is being closed, and ends its visits. What wants the actor waits until gone is called.
func (r *roster) leave(id actorstore.ID, a any) {
	r.mu.Lock()
	if r.open[id] != a { // it is a visit's, or its Close was called before
		r.mu.Unlock()
		return
	}
	delete(r.open, id)
	h := r.hold(id)
	r.ending[a] = func() { r.release(id, h) }
	visits := r.visits[a]
	delete(r.visits, a)
	r.mu.Unlock()
	for _, v := range visits {
		v.cancel()
		<-v.over
	}
}

// gone notes that a is closed, or couldn't be.
func (r *roster) gone(a any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if release := r.ending[a]; release != nil {
		delete(r.ending, a)
		release()
	}
}

// hold has what wants the actor wait until it is released.
//
// +checklocks:r.mu
func (r *roster) hold(id actorstore.ID) *hold {
	h := &hold{over: make(chan struct{})}
	if r.busy == nil {
		r.busy = map[actorstore.ID]*hold{}
	}
	r.busy[id] = h
	return h
}

// release ends a hold.
//
// +checklocks:r.mu
func (r *roster) release(id actorstore.ID, h *hold) {
	if r.busy[id] == h {
		delete(r.busy, id)
	}
	close(h.over)
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
		case <-busy.over:
			waited = true
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// A claim is what a visit has: the actor, if it is open, or a hold of it.
type claim struct {
	ctx  context.Context // ends when the actor is closed
	a    any             // nil if it isn't open
	held *hold
	end  func() // ends the visit
}

// claim returns the actor if it is open, and otherwise holds it.
func (r *roster) claim(ctx context.Context, id actorstore.ID) (c claim, err error) {
	for {
		if _, err := r.await(ctx, id); err != nil {
			return c, err
		}
		r.mu.Lock()
		a, is := r.open[id]
		switch {
		case r.busy[id] != nil:
			r.mu.Unlock()
			continue
		case is:
			c.a = a
			c.ctx, c.end = r.visit(ctx, a)
		default:
			h := r.hold(id)
			c.held, c.end = h, func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.release(id, h)
			}
		}
		r.mu.Unlock()
		return c, nil
	}
}

// visit begins a visit of an actor that is open.
//
// +checklocks:r.mu
func (r *roster) visit(ctx context.Context, a any) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	v := &visit{cancel, make(chan struct{})}
	r.visits[a] = append(r.visits[a], v)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		close(v.over)
		if left := slices.DeleteFunc(r.visits[a], func(other *visit) bool { return other == v }); len(left) > 0 {
			r.visits[a] = left
		} else {
			delete(r.visits, a)
		}
	}
}
