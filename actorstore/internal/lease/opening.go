package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// An Opening is an opening of an actor that another host may have. Nothing is claimed
// before that host provably answers nothing about the actor any more:
//
//   - It has closed its handle, and removed the owner row.
//   - Its row is gone: it ended, or another host found it dead.
//   - It is dead: its lease is over, going by what either clock allows, or its
//     process is gone. Its row is removed first, so that it learns so if it isn't.
//   - It was asked for the actor (ActorOptions.Force), and has renewed its lease since,
//     which it does only after it has fenced its handle.
type Opening struct {
	// Seat is that of the handle, nil where no other host can have the actor.
	Seat *Seat
	// Wait and Force are those of actorstore.ActorOptions.
	Wait, Force bool

	free  []byte // the owner row whose handle answers no more
	asked []byte // the one that its host was asked to give up
	wait  time.Duration
}

// Admit says whether the actor may be claimed, whose owner row is owned, nil for none. If not it has waited,
// and the row is to be read again. It keeps no part of owned.
func (w *Opening) Admit(ctx context.Context, owned []byte) (bool, error) {
	if w.Seat == nil || owned == nil || bytes.Equal(owned, w.free) {
		return true, nil
	}
	o, err := layout.ParseOwner(w.Seat.held.id, owned)
	if err != nil {
		return false, err
	}
	if o.Host == w.Seat.lease.id {
		return true, nil // a handle of this store, which has just one for each actor
	}
	v, err := w.others().look(ctx, o.Host)
	switch {
	case err != nil:
		return false, fmt.Errorf("actorstore: read host %x: %w", o.Host, err)
	case v.gone:
		return true, nil
	case v.dead:
		return w.bury(ctx, v)
	case w.asked != nil && bytes.Equal(w.asked, owned) && !v.row.Wants(w.Seat.held.id):
		w.free = w.asked
		return true, nil
	}
	return false, w.stay(ctx, v, owned)
}

func (w *Opening) others() *others { return w.Seat.lease.others }

// bury removes the row of a dead host.
func (w *Opening) bury(ctx context.Context, v *visit) (bool, error) {
	err := swap(ctx, w.others().Engine, v.host, v.stored, nil)
	if errors.Is(err, kv.ErrConflict) {
		return false, ctx.Err() // it lives, or another host was faster
	}
	if err != nil {
		return false, fmt.Errorf("actorstore: end the lease of host %x: %w", v.host, err)
	}
	w.others().seen.bury(v.host)
	return true, nil
}

// stay waits for a host that is alive, or says that it has the actor.
func (w *Opening) stay(ctx context.Context, v *visit, owned []byte) error {
	ttl := v.row.Lease()
	// What is waited for happens at a renewal of the other host, or at any time: a
	// look now and then finds it soon enough, and the end of the lease on the spot.
	pause := min(max(2*w.wait, ttl/24), ttl/3)
	switch {
	case w.Force:
		if err := w.ask(ctx, v, owned); err != nil {
			return err
		}
		pause = ttl / 12
	case !w.Wait:
		return w.others().InUse(v.host, &v.row)
	}
	w.wait = pause
	for _, left := range []time.Duration{ttl + margin(ttl) - v.same, w.others().left(&v.row)} {
		if left >= 0 {
			pause = min(pause, left+time.Millisecond)
		}
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", w.others().InUse(v.host, &v.row), ctx.Err())
	case <-w.others().Closing:
		return w.others().Check()
	}
}

// ask asks the host to give the actor up, unless that has been done.
func (w *Opening) ask(ctx context.Context, v *visit, owned []byte) error {
	if id := w.Seat.held.id; !v.row.Wants(id) {
		if len(v.row.Wanted) == layout.MaxWanted {
			return nil // as soon as there is room
		}
		row := v.row
		row.Wanted = append(slices.Clip(row.Wanted), id)
		err := swap(ctx, w.others().Engine, v.host, v.stored, row.Append(nil))
		if errors.Is(err, kv.ErrConflict) {
			return nil // it was renewed just now
		}
		if err != nil {
			return fmt.Errorf("actorstore: ask host %x for actor %s: %w", v.host, id, err)
		}
	}
	w.asked = bytes.Clone(owned)
	return nil
}
