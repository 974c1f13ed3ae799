package actorstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// ForkOptions say what Store.Fork makes. The zero value is fine.
type ForkOptions struct {
	// ID of the new actor. The zero ID means that of Name (IDFromName), and without
	// a name a random one.
	ID ID
	// Name is recorded for the new actor, with the commit that makes it exist.
	Name string
	// Wake has the new actor woken at once, to do what the state says is due. Else it sleeps until it is called, or woken by SetWake or WakeBy.
	Wake bool
	// Attributes, unless it is nil, is called with the state that is copied, and with what the new actor will be found by, which it may change: what
	// is copied may be from a store whose index isn't built. An error ends the fork.
	Attributes func(ctx context.Context, from Reader, at *Attributes) error
	// Progress, unless it is nil, is called after every commit, with the bytes that
	// the new actor stores by then.
	Progress func(used int64)
}

// A copier writes keys to an actor that doesn't exist yet.
type copier struct {
	to       *Actor
	progress func(used int64)
	// attribute is ForkOptions.Attributes.
	attribute func(ctx context.Context, from Reader, at *Attributes) error
	batch     batch.Batch
	payload   int
	values    []byte // of what is staged
}

// run copies what from shows.
func (c *copier) run(ctx context.Context, from *Snapshot, wake bool) error {
	for e, err := range from.List(ctx, ListOptions{}) {
		if err != nil {
			return err
		}
		if ownBusiness(e.Key) {
			continue
		}
		if err := c.add(ctx, e); err != nil {
			return err
		}
	}
	if err := c.copyNotes(ctx, from); err != nil {
		return err
	}
	of, err := from.attributes(ctx, c.attribute)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	of.Slept = time.Time{} // of the other one
	c.to.StageAttributes(&c.batch, func(at *Attributes) error {
		*at = of
		return nil
	})
	if wake {
		c.batch.WakeBy(time.UnixMilli(c.to.store.millis()))
	}
	c.to.hidden = false // the next commit counts as the first
	return c.land(ctx, kv.Durable)
}

// add stages one key, after landing what is staged if it doesn't fit beside that.
func (c *copier) add(ctx context.Context, e Entry) error {
	l := &c.to.store.limits
	n := len(e.Key) + batch.WrapperBytes + len(e.Value)
	if c.batch.Len() == l.Entries || c.payload+n > l.Payload {
		if err := c.land(ctx, kv.Applied); err != nil {
			return err
		}
	}
	// A full slice is replaced by append, and values staged before keep the old one.
	start := len(c.values)
	c.values = append(c.values, e.Value...)
	// The actor has no other writer, and the keys come in order: none is there yet.
	c.batch.PutPrior(e.Key, c.values[start:len(c.values):len(c.values)], batch.Absent)
	c.payload += n
	return nil
}

// land commits what is staged.
func (c *copier) land(ctx context.Context, d kv.Durability) error {
	if err := c.to.write(ctx, &c.batch, d, 0); err != nil {
		return err
	}
	c.batch.Reset()
	c.payload, c.values = 0, c.values[:0]
	if c.progress != nil {
		c.progress(c.to.Used())
	}
	return nil
}

// fork is Fork of s with an ID, and without the wrapping of errors.
func (c *copier) fork(ctx context.Context, s *Store, from *Snapshot, o *ForkOptions) (err error) {
	if err := errors.Join(s.check(), from.state.Err()); err != nil {
		return err
	}
	if from.Seq() == 0 {
		return ErrUnknownActor
	}
	// A handle of this Store keeps the new actor from being opened, so one that is
	// open and exists has to be found out before.
	rec, err := loadRecord(ctx, s.eng, o.ID)
	if err != nil {
		return err
	}
	if rec.written() {
		return ErrExists
	}
	a, err := s.own(ctx, o.ID, &ActorOptions{Name: o.Name, Layout: from.Layout(), fresh: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	a.forking, a.hidden = true, true
	c.to, c.progress, c.attribute = a, o.Progress, o.Attributes
	if err = c.run(ctx, from, o.Wake); err != nil && a.Seq() == 0 && a.Err() == nil {
		// Not even a context that is over should leave a half. If it can't be
		// removed, the next opening does that.
		_ = a.Drop(context.WithoutCancel(ctx))
	}
	return err
}

// copyNotes stages the notes that from shows, and lands them in pieces.
func (c *copier) copyNotes(ctx context.Context, from *Snapshot) error {
	n := 0
	for note, err := range from.Notes(ctx, nil) {
		if err != nil {
			return err
		}
		if n == notesOfCommit {
			if err := c.land(ctx, kv.Applied); err != nil {
				return err
			}
			n = 0
		}
		if err := c.to.StageNote(&c.batch, bytes.Clone(note.Key), append([]byte{}, note.Value...)); err != nil {
			return err
		}
		n++
	}
	return nil
}
