package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
)

// A visitor finds actors without waking them.
type visitor struct{ *Host }

// claim returns the actor if it is awake, and keeps it so until done is called. If it sleeps, or is of none of h's types, l is nil; until done is
// called others wait for it then as for one that is on its way to sleep.
func (h visitor) claim(ctx context.Context, id actorstore.ID) (l *life, done func(), err error) {
	a, err := h.find(ctx, id)
	if errors.Is(err, ErrNoType) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	at, isAwake, err := h.place(ctx, a, a.String(), byUser)
	switch {
	case err != nil:
		return nil, nil, err
	case isAwake:
		return at, at.leave, nil
	}
	return nil, func() { h.release(at) }, nil
}

// release gives back the place that place has taken.
func (h visitor) release(l *life) {
	l.end()
	h.forget(&l.stay)
	close(l.left)
}

// was returns the address of an actor in an earlier state. ErrNoType says that it was of none of h's types.
func (h visitor) was(ctx context.Context, id actorstore.ID, to archive.Bookmark) (Address, error) {
	backups, err := archive.Of(h.engine).Archive(ctx)
	if err != nil {
		return Address{}, err
	}
	v, err := backups.Actor(ctx, to, "id:"+id.String())
	if err != nil {
		return Address{}, err
	}
	name := v.Info().Name
	if err := v.Close(); err != nil {
		return Address{}, err
	}
	return h.address(id, name)
}

// address returns the address of an actor with that name.
func (h visitor) address(id actorstore.ID, name string) (Address, error) {
	a, err := ParseAddress(name)
	if err != nil || h.kind(a.Type) == nil || actorstore.IDFromName(name) != id {
		return Address{}, fmt.Errorf("%w: the actor is called %.80q", ErrNoType, name)
	}
	return a, nil
}

// find returns the address of an actor that exists. ErrNoType says that it is of none of h's types.
func (h visitor) find(ctx context.Context, id actorstore.ID) (Address, error) {
	v, err := h.store.View(ctx, id)
	if err != nil {
		return Address{}, err
	}
	name := v.Info().Name
	if err := v.Close(); err != nil {
		return Address{}, err
	}
	return h.address(id, name)
}

// place returns an actor that is awake, and counts a user of it, until leave; or it takes the place of one that sleeps, for which
// others wait as for one that is on its way to sleep.
func (h visitor) place(ctx context.Context, a Address, name string, by caller) (l *life, isAwake bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.closed {
			return nil, false, ErrClosed
		}
		if l = h.lives[name]; l == nil {
			if err := h.room(ctx, name, by == byCourier); err != nil {
				return nil, false, err
			}
			if l = h.lives[name]; l == nil { // no other caller was quicker
				l = h.newLife(h.kind(a.Type), a, name, nil)
				l.phase = leaving
				close(l.over) // it takes no turns of its parts
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
			h.use(&l.stay)
			return l, true, nil
		case waking:
			err = await(ctx, &h.mu, l.woken)
		default:
			err = await(ctx, &h.mu, l.left)
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// serves says whether the actor of that name is awake.
func (h visitor) serves(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[name]
	return l != nil && l.phase == awake
}
