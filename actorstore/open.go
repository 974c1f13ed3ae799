package actorstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/kv"
)

// Actor takes the actor over and returns the handle to it; a nil opts is the zero
// ActorOptions. Its owner in another Store is fenced; but where that Store may be on
// another host, and is alive, the actor is ErrInUse. An actor needs no creation: it
// exists with its first commit. Nothing waits for stable storage within one process.
//
// Errors: ErrInUse, ErrUnknownActor, ErrNameTaken, ErrName, ErrID, ErrLayout, ErrReadOnly,
// ErrClosed, ErrCorrupt, ErrNewerFormat, ErrNewerSchema, and those of the engine.
func (s *Store) Actor(ctx context.Context, id ID, opts *ActorOptions) (*Actor, error) {
	if opts == nil {
		opts = &ActorOptions{}
	}
	a, err := s.own(ctx, id, opts)
	if err != nil {
		return nil, &openError{cmp.Or(opts.Name, id.String()), err}
	}
	return a, nil
}

// Named is Actor for the actor that has the name, or for IDFromName(name), with
// the name to be recorded, if the name is new. opts.Name is ignored.
func (s *Store) Named(ctx context.Context, name string, opts *ActorOptions) (*Actor, error) {
	o := ActorOptions{}
	if opts != nil {
		o = *opts
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	o.Name = name
	id := IDFromName(name)
	a, err := s.Actor(ctx, id, &o)
	if of, ok := s.Holder(ctx, id, name, err); ok {
		return s.Actor(ctx, of, &o)
	}
	return a, err
}

// Holder returns which actor has the name, if an opening of the actor id with that name failed with
// err because another one does, as far as is known.
func (s *Store) Holder(ctx context.Context, id ID, name string, err error) (of ID, ok bool) {
	var taken *TakenError
	switch {
	case errors.As(err, &taken):
		return taken.ID, true
	case errors.Is(err, ErrInUse): // before the name was looked up
		of, err = s.Lookup(ctx, name)
		return of, err == nil && of != id
	}
	return ID{}, false
}

// own is Actor without the wrapping of errors.
func (s *Store) own(ctx context.Context, id ID, opts *ActorOptions) (*Actor, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	if id.IsZero() {
		return nil, fmt.Errorf("%w: the zero id", ErrID)
	}
	if opts.Layout >= layouts {
		return nil, fmt.Errorf("%w: %d is not a layout", ErrLayout, opts.Layout)
	}
	if opts.Name != "" {
		if err := checkName(opts.Name); err != nil {
			return nil, err
		}
	}
	l, err := s.places.reserve(ctx, id, opts.Wait, s.closing)
	if err != nil {
		return nil, err
	}
	a := newActor(id, s, l)
	a.handle = reading{a}
	a.reads = reads.New(reads.Actor{ID: layout.ID(id), Rows: a.space, Engine: s.eng, Handle: a.handle}, s.cache)
	s.owners.enter(a)
	if err := (&takeover{a}).run(ctx, opts); err != nil {
		a.leave()
		return nil, err
	}
	a.landed.Store(s.shared.landed()) // what the owner before committed is there, too
	if err := s.places.occupy(l, a); err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// View pins the newest applied state of the actor. An actor that was never written
// to is ErrUnknownActor. The view must be closed.
func (s *Store) View(ctx context.Context, id ID) (*View, error) {
	views, err := s.Views(ctx, []ID{id})
	if err != nil {
		return nil, err
	}
	return views[0], nil
}

// Views is View of several actors, in the order of ids, as of one moment. Each view must be closed.
func (s *Store) Views(ctx context.Context, ids []ID) (views []*View, err error) {
	if err := s.check(); err != nil || len(ids) == 0 {
		return nil, err
	}
	snap, err := s.eng.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("actorstore: view of actor %s: %w", ids[0], err)
	}
	if len(ids) > 1 {
		c := &commonSnapshot{Snapshot: snap}
		c.users.Store(int64(len(ids)))
		snap = c
	}
	for i, id := range ids {
		rec, err := loadRecord(ctx, snap, id)
		v := &View{Snapshot: &Snapshot{arrangement: arrangement{rec.layout}}}
		v.state.Pin(s.space(id, snap), snap, rec.head.Seq)
		views = append(views, v)
		if err == nil && !rec.written() {
			err = ErrUnknownActor
		}
		if err != nil {
			err = fmt.Errorf("actorstore: view of actor %s: %w", id, err)
			for _, v := range views {
				err = errors.Join(err, v.Close())
			}
			for range ids[i+1:] { // which have none yet
				err = errors.Join(err, snap.Close())
			}
			return nil, err
		}
		v.info, v.hints, v.store = rec.info(id), rec.hints, s
	}
	return views, nil
}

// A commonSnapshot is a snapshot of the engine that several views have. The last one closes it.
type commonSnapshot struct {
	kv.Snapshot
	users atomic.Int64
}

// Close is kv.Snapshot's, for one user.
func (c *commonSnapshot) Close() error {
	if c.users.Add(-1) > 0 {
		return nil
	}
	return c.Snapshot.Close()
}

// ScanRanges is kv.RangesScanner's.
func (c *commonSnapshot) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.ScanRanges(ctx, c.Snapshot, ranges)
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
// actor and not to its content: its connections, whose clients talk to the original, the
// inspector's token, a secret that would open both, and what hosts keep of letters: those that the
// original has sent, how they are numbered, and what has come from whom. The new actor is another sender, and another receiver.
// Everything else is, and so is what the original was about to do: messages that are not
// completed, sleeping workflows and scheduled events are then there twice. The new actor
// does nothing of it before it is called or woken (ForkOptions.Wake). A database
// with a transaction that is under way gets its journal too, and is rolled back when it
// is opened. Keys count as written now.
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
	if err := new(copier).fork(ctx, s, from, &o); err != nil {
		return ID{}, fmt.Errorf("actorstore: fork to actor %s: %w", o.ID, err)
	}
	return o.ID, nil
}
