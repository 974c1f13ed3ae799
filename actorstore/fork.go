package actorstore

import (
	"context"
	"errors"
	"fmt"
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
	// Everything copies the connections and the inspector's token, too: for an actor
	// that moves to another Store and is dropped here.
	Everything bool
	// Progress, unless it is nil, is called after every commit, with the bytes that
	// the new actor stores by then.
	Progress func(used int64)
}

// Fork makes a new actor with the keys that from shows, and returns its id. The one
// that from is of may be in use and go on meanwhile: the state of a snapshot doesn't
// change. It may be an actor of another Store, on another engine. What is written is
// cut to the limits of s, in as many commits as that takes and in the memory of one; the
// last one, which alone is waited for, makes the actor exist. Until then nothing shows
// it, and what is there of it is removed on an error, or, after a crash, by the next
// opening of an actor of that id, with another Fork for instance.
//
// The new actor has the same layout of keys. Not copied are what belongs to the one
// actor and not to its content: its
// connections, whose clients talk to the original, and the inspector's token, a
// secret that would open both. Everything else is, and so is what the original was
// about to do: messages that are not completed, sleeping workflows and scheduled
// events are then there twice. A database with a transaction that is under way gets
// its journal too, and is rolled back when it is opened. Keys count as written now.
//
// Errors: ErrExists when there is such an actor, which is also so for the one that is
// forked; ErrUnknownActor when from is of one that was never written to; ErrNameTaken,
// ErrName, ErrInUse, ErrReadOnly, ErrClosed; ErrQuota and the limits of a batch when the
// limits of s are lower than those that the keys were written under; ErrFenced when
// the new actor is opened elsewhere meanwhile; the context's. After ErrPoisoned it is
// open whether the actor exists.
func (s *Store) Fork(ctx context.Context, from *Snapshot, opts *ForkOptions) (ID, error) {
	o := ForkOptions{}
	if opts != nil {
		o = *opts
	}
	switch {
	case !o.ID.IsZero():
	case o.Name != "":
		o.ID = IDFromName(o.Name)
	default:
		o.ID = NewID()
	}
	if err := s.fork(ctx, from, &o); err != nil {
		return ID{}, fmt.Errorf("actorstore: fork to actor %s: %w", o.ID, err)
	}
	return o.ID, nil
}

// fork is Fork with an ID, and without the wrapping of errors.
func (s *Store) fork(ctx context.Context, from *Snapshot, o *ForkOptions) (err error) {
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
	c := copier{to: a, progress: o.Progress}
	if err = c.run(ctx, from, o.Everything); err != nil && a.Seq() == 0 && a.Err() == nil {
		// Not even a context that is over should leave a half. If it can't be
		// removed, the next opening does that.
		_ = a.Drop(context.WithoutCancel(ctx))
	}
	return err
}

// A copier writes keys to an actor that doesn't exist yet.
type copier struct {
	to       *Actor
	progress func(used int64)
	batch    batch.Batch
	payload  int
	values   []byte // of what is staged
	work     bool   // the actor may have something to do: it is to be woken
}

// run copies what from shows.
func (c *copier) run(ctx context.Context, from *Snapshot, everything bool) error {
	for e, err := range from.List(ctx, ListOptions{}) {
		if err != nil {
			return err
		}
		if !everything && ownBusiness(e.Key) {
			continue
		}
		if err := c.add(ctx, e); err != nil {
			return err
		}
	}
	if err := c.copyNotes(ctx, from); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.work {
		c.batch.WakeBy(time.UnixMilli(c.to.store.millis()))
	}
	c.to.hidden = false // the next commit counts as the first
	return c.land(ctx, kv.Durable)
}

// ownBusiness says whether a key is about the actor itself and not its content.
func ownBusiness(key []byte) bool {
	return len(key) > 0 && (key[0] == NamespaceConnections || key[0] == NamespaceInspector)
}

// isWork says whether a key may give an actor something to do by itself.
func isWork(l Layout, key []byte) bool {
	for _, n := range []byte{NamespacePersist, NamespaceQueue, NamespaceWorkflow, NamespaceHost} {
		if _, ok := l.cut(key, n); ok {
			return true
		}
	}
	return false
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
	c.work = c.work || isWork(c.to.layout, e.Key)
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
