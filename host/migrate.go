package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/rollout"
)

// MigrateOptions say how Host.Migrate goes about it. The zero value brings up one actor after the other, whatever fails.
type MigrateOptions struct {
	Canary      int     // so many actors are brought up first, one after the other, and the others only if none of these fails; one that is awake isn't among them
	Parallel    int     // how many are brought up at a time; 0 means one
	Rate        float64 // how many are begun in a second at most; 0 means as many as go
	MaxFailures int     // after so many failures no other one is begun; 0 means that all are tried
	DryRun      bool    // nothing is done: Migrated.Left says how many there are
	// Progress is called after each actor, one call at a time, with what was done by then. It must not keep it.
	Progress func(*Migrated)
}

// Migrated is what Host.Migrate has done.
type Migrated struct {
	Done int // actors that were brought up
	// Awake are left as they are: they are awake, here or at another host. Those whose host knows the last version were brought up when they woke, and the others are when they wake
	// at a host that does.
	Awake  int
	Failed []MigrateFailure // they are as they were
	Left   int              // actors that were not tried
}

// A MigrateFailure is an actor that couldn't be brought up.
type MigrateFailure struct {
	Actor Address
	Err   error
}

// An upgrader has actors go to another version of their type.
type upgrader struct{ host *Host }

// Migrate brings the databases of the actors of a type up that sleep, each in one transaction, by the type's Migrations. None of their other code runs, and a call that comes
// meanwhile waits until its actor is done. Actors that were brought up are left out, so that a Migrate that was cut short goes on when it is called again. It may run beside other hosts of the
// store.
//
// Errors: ErrNoType; the context's; those of listing the actors. If an actor has failed, or was not tried since others have, the error says how many, and wraps that of the first one. What
// was done by then is returned with an error, too.
func (u *upgrader) Migrate(ctx context.Context, typ string, opts *MigrateOptions) (*Migrated, error) {
	h := u.host
	kind := h.kind(typ)
	if kind == nil {
		return nil, fmt.Errorf("%w: %.80q", ErrNoType, typ)
	}
	if opts == nil {
		opts = &MigrateOptions{}
	}
	var all []Address
	for info, err := range h.door.Actors(ctx, &greenroom.ActorsOptions{Prefix: typ + "/"}) {
		if err != nil {
			return nil, err
		}
		if a, err := ParseAddress(info.Name); err == nil && info.Attributes.Schema < kind.Migrations.Latest() {
			all = append(all, a)
		}
	}
	got := &Migrated{Left: len(all)}
	if opts.DryRun {
		return got, nil
	}
	o := rollout.Options{Parallel: opts.Parallel, Canary: opts.Canary, Rate: opts.Rate, MaxFailures: opts.MaxFailures}
	rollout.Run(ctx, o, all, func(a Address) error {
		return u.migrate(ctx, a)
	}, func(_ rollout.Counts, a Address, err error) {
		got.Left--
		switch {
		case err == nil:
			got.Done++
		case errors.Is(err, errAwake):
			got.Awake++
		case errors.Is(err, errGone):
		default:
			got.Failed = append(got.Failed, MigrateFailure{a, err})
		}
		if opts.Progress != nil {
			opts.Progress(got)
		}
	})
	if ctx.Err() != nil {
		return got, ctx.Err()
	}
	if n := len(got.Failed); n > 0 {
		first := got.Failed[0]
		return got, fmt.Errorf("host: %d of %d actors couldn't be migrated, and %d were not tried: the first one is %s: %w", n, len(all), got.Left, first.Actor, first.Err)
	}
	return got, nil
}

// errAwake says that an actor is awake, and errGone that it was destroyed meanwhile.
var (
	errAwake = fmt.Errorf("%w: the actor is awake", rollout.ErrLeft)
	errGone  = fmt.Errorf("%w: the actor is gone", rollout.ErrLeft)
)

// migrate brings an actor up that sleeps.
func (u *upgrader) migrate(ctx context.Context, a Address) error {
	h := u.host
	l, isAwake, err := visitor{h}.place(ctx, a, a.String(), byUser)
	if errors.Is(err, greenroom.ErrNested) { // it waits for the caller
		return errAwake
	}
	if err != nil {
		return err
	}
	if isAwake {
		l.leave()
		return errAwake
	}
	defer visitor{h}.release(l)
	door, err := h.door.Actor(ctx, l.name, l.creation.options())
	switch {
	case errors.Is(err, actorstore.ErrInUse):
		return errAwake
	case errors.Is(err, actorstore.ErrUnknownActor):
		return errGone
	case err != nil:
		return err
	}
	_, err = l.kind.Migrations.Migrate(ctx, door)
	return errors.Join(err, door.Close())
}
