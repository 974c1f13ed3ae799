package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// movePause is the pause before an actor is looked for again.
const movePause = 50 * time.Millisecond

// A follower does something with an actor where it is.
type follower struct {
	e        *core
	info     *actorInfo
	anywhere bool // it takes no runner
}

// follow does it by here, with the actor open at this engine, or by there at another one. If that hasn't got the actor, which there says by errMoved, or can't be
// reached, errFar, nothing was done, and follow looks for the actor again for as long as one may take to be ready. It passes nothing on that came
// from another engine.
func (w follower) follow(ctx context.Context, here func(*actor) error, there func(*actorstore.HostInfo) error) error {
	visit := func() error {
		a, err := enter(ctx, w.e, w.info.ID, false)
		if err != nil {
			return err
		}
		defer a.leave()
		return here(a)
	}
	e, info := w.e, w.info
	f, name := e.fleet, info.ID.String()
	if f == nil || isForwarded(ctx) {
		return visit()
	}
	until := e.now().Add(e.opts.ReadyTimeout)
	var owner *actorstore.HostInfo // where it is, or is wanted, as the last error says
	for {
		to := owner
		if to == nil && !w.anywhere && !w.isOpen() {
			to = f.wanted(ctx, info)
		}
		var err error
		if to == nil {
			err = visit()
		} else if err = there(to); err == nil {
			f.routes.Learn(name, to)
		}
		if to != nil && errors.Is(err, errFar) {
			e.log.Warn("engine: another engine can't be reached", slog.String("host", to.Name), slog.Any("error", err))
			f.routes.Down(to.ID)
			f.routes.Forget(name)
			far := err
			err = visit() // if it has died its actors are free
			if at := w.owner(err); at != nil && at.ID == to.ID {
				return far
			}
		}
		switch owner = w.owner(err); {
		case errors.Is(err, errMoved):
			f.routes.Forget(name)
		case errors.Is(err, errElsewhere):
			owner = f.wanted(ctx, info)
		case errors.Is(err, errLeaving):
			if owner = f.wanted(ctx, info); owner == nil {
				return err
			}
		case owner == nil:
			return err
		}
		if e.now().After(until) {
			return errNotReady
		}
		if to != nil { // the first time it was only unknown where it is
			select {
			case <-time.After(movePause):
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			}
		}
	}
}

// isOpen reports whether the actor is open here, or about to be.
func (w follower) isOpen() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	a := w.e.actors[w.info.ID]
	return a != nil && !a.closing && a.phase != gone
}

// owner returns the engine that has an actor, by an error of enter, nil if that isn't known, or takes no requests.
func (w follower) owner(err error) *actorstore.HostInfo {
	in := (*actorstore.InUseError)(nil)
	if !errors.As(err, &in) || in.Host.Offer.Address == "" || in.Host.ID == w.e.store.Self() {
		return nil
	}
	return &in.Host
}
