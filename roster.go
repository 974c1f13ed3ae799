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
	open   map[actorstore.ID]any           // +checklocks:mu
	calls  map[actorstore.ID]int           // of Actor, that aren't over  +checklocks:mu
	news   chan struct{}                   // closed when one is; nil while no visit waits for that  +checklocks:mu
	busy   map[actorstore.ID]chan struct{} // closed when the visit, or the Close, ends that has the actor  +checklocks:mu
	visits map[any][]*visit                // of actors that are open  +checklocks:mu
	ending map[any]func()                  // of actors that are being closed: lets others have them  +checklocks:mu
}

// A visit is a call of Visit with an actor that the program has open.
type visit struct {
	cancel context.CancelFunc
	over   chan struct{}
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
		}
		if r.news != nil {
			close(r.news)
			r.news = nil
		}
	}
}

// call waits until a call of Actor is over, if there is one of that actor. had says whether there was, or it is over by now and the actor is open.
func (r *roster) call(ctx context.Context, id actorstore.ID) (had bool, err error) {
	r.mu.Lock()
	n := r.calls[id]
	_, is := r.open[id]
	is = is || r.busy[id] != nil
	if r.news == nil {
		r.news = make(chan struct{})
	}
	news := r.news
	r.mu.Unlock()
	if n == 0 || is {
		return is, nil
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
	r.ending[a] = r.hold(id)
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
	release := r.ending[a]
	delete(r.ending, a)
	r.mu.Unlock()
	if release != nil {
		release()
	}
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
		if r.busy[id] == busy {
			delete(r.busy, id)
		}
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

// claim returns the actor if it is open, with a context that ends when that is closed, and otherwise holds it for a visit. release ends the visit.
func (r *roster) claim(ctx context.Context, id actorstore.ID) (_ context.Context, a any, release func(), err error) {
	for {
		if _, err := r.await(ctx, id); err != nil {
			return nil, a, nil, err
		}
		r.mu.Lock()
		a, is := r.open[id]
		switch {
		case r.busy[id] != nil:
			r.mu.Unlock()
			continue
		case !is:
			release = r.hold(id)
		default:
			ctx, release = r.visit(ctx, a)
		}
		r.mu.Unlock()
		return ctx, a, release, nil
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
