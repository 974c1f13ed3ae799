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
	var owner *actorstore.HostInfo // as the last error says
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
		owner = w.owner(err)
		if moved := errors.Is(err, errMoved); moved {
			f.routes.Forget(name)
		} else if owner == nil && !errors.Is(err, errElsewhere) && !(errors.Is(err, errLeaving) && f.wanted(ctx, info) != nil) {
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
	return w.e.actors[w.info.ID] != nil
}

// owner returns the engine that has an actor, by an error of enter, nil if that isn't known, or takes no requests.
func (w follower) owner(err error) *actorstore.HostInfo {
	in := (*actorstore.InUseError)(nil)
	if !errors.As(err, &in) || in.Host.Offer.Address == "" || in.Host.ID == w.e.store.Self() {
		return nil
	}
	return &in.Host
}
