package host

import (
	"context"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
)

// Visit runs fn with an actor that exists, for tools that act from outside of its code: with the actor as it is in
// memory, beside its turns, each Update between two of these; or, if it sleeps, with one that is open for the call
// alone, and calls for the actor wait for the end of it. None of the actor's code is run for the visit: what fn stores in an actor that
// sleeps wakes it afterwards, if there is something to do. fn must not close the actor.
//
// Errors: fn's; greenroom.ErrNotFound, of an actor that does not exist; greenroom.ErrInUse, if another host has it;
// ErrClosed; greenroom.ErrNested in a turn of the actor; those of the engine.
func (h *Host) Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *greenroom.Actor) error) error {
	_, done, err := h.claim(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	return h.door.Visit(ctx, id, fn)
}

// DropID removes an actor with everything in it, without asking its code: Destroy does. Its connections are closed. Errors: those of Visit and
// Destroy.
func (h *Host) DropID(ctx context.Context, id actorstore.ID) error {
	l, done, err := h.claim(ctx, id)
	if err != nil {
		return err
	}
	if l == nil {
		defer done()
		return h.door.DropID(ctx, id)
	}
	done() // the actor leaves memory when it has no users
	return h.turn(ctx, l.addr, nil, newTurn(spanOnDestroy, func(c *Context) error {
		c.destroy = true
		return nil
	}))
}

// claim returns the actor if it is awake, and keeps it so until done is called. If it sleeps, or is of none of h's types, l is nil; until done is
// called others wait for it then as for one that is on its way to sleep.
func (h *Host) claim(ctx context.Context, id actorstore.ID) (l *life, done func(), err error) {
	v, err := h.store.View(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	name := v.Info().Name
	if err := v.Close(); err != nil {
		return nil, nil, err
	}
	a, err := ParseAddress(name)
	kind := h.types[a.Type]
	if err != nil || kind == nil || actorstore.IDFromName(name) != id {
		return nil, func() {}, nil
	}
	at, isAwake, err := h.place(ctx, kind, a, name)
	switch {
	case err != nil:
		return nil, nil, err
	case isAwake:
		return at, at.leave, nil
	}
	return nil, func() {
		at.end()
		h.forget(at)
		close(at.left)
	}, nil
}

// place returns an actor that is awake, and counts a user of it, until leave; or it takes the place of one that sleeps, for which
// others wait as for one that is on its way to sleep.
func (h *Host) place(ctx context.Context, kind *kind, a Address, name string) (l *life, isAwake bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.closed {
			return nil, false, ErrClosed
		}
		if l = h.lives[name]; l == nil {
			if err := h.room(ctx, name, false); err != nil {
				return nil, false, err
			}
			if l = h.lives[name]; l == nil { // no other caller was quicker
				l = newLife(h, kind, a, name, nil)
				l.phase = leaving
				h.leaving++
				h.lives[name] = l
				return l, false, nil
			}
		}
		if err := nested(ctx, l); err != nil {
			return nil, false, err
		}
		switch l.phase {
		case awake:
			h.use(l)
			return l, true, nil
		case waking:
			err = h.await(ctx, l.woken)
		default:
			err = h.await(ctx, l.left)
		}
		if err != nil {
			return nil, false, err
		}
	}
}
