package host

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
)

// restoredReason is what clients are told whose connections end because their actor was restored.
const restoredReason = "the actor was restored"

// RestoreID makes an actor what it was in an earlier state, as greenroom.Store.RestoreID does, of the backup of the host's engine. An actor that is awake
// leaves memory first, when its turns have ended; its code isn't asked. Its connections are closed.
//
// Errors: those of greenroom.Store.Restore and of Visit.
func (h *Host) RestoreID(ctx context.Context, id actorstore.ID, to archive.Bookmark, opts *greenroom.RestoreOptions) (r *greenroom.Restored, err error) {
	a, err := visitor{h}.find(ctx, id)
	if archive.Of(h.engine) == nil || errors.Is(err, greenroom.ErrNotFound) { // which the store says; or the actor was dropped
		return h.door.RestoreID(ctx, id, to, opts)
	}
	l, done, err := visitor{h}.claim(ctx, id)
	if err != nil {
		return nil, err
	}
	if l == nil {
		defer done()
		r, err = h.door.RestoreID(ctx, id, to, opts)
		if err == nil {
			h.away.drop(a.String(), restoredReason)
		}
		return r, err
	}
	done()                      // the actor leaves memory when it has no users
	var got *greenroom.Restored // which is not looked at if the caller doesn't wait
	err = h.turn(ctx, l.addr, nil, newTurn("actor.restore", func(c *Context) error {
		c.destroy, c.restore = true, func() (err error) {
			got, err = c.life.door.Restore(ctx, to, opts)
			return err
		}
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return got, nil
}

// turnBack is the end of an actor that is restored, and tells those that asked for it. If it can't be restored it sleeps as it is.
func (c *course) turnBack() error {
	var left remnant
	left.of(c.life)
	c.noteSleep(left)
	err := c.restore()
	if err == nil {
		c.host.away.drop(c.name, restoredReason)
	}
	c.gate.destroyed(err)
	c.used.tell()
	c.shut(false)
	return err
}
