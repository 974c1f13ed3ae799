package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/kv"
)

// A Snapshot is a Reader of one state of an actor. It stays readable when its
// handle or the Store is closed, but not when the engine is, when the handle is fenced
// or poisoned before, or, once that is closed, in another kv.Incarnation. It keeps old
// versions of the whole store alive, or makes the next commit do so: close it soon. It is
// safe for concurrent use.
type Snapshot struct {
	arrangement
	state reads.State
}

// A reading is an Actor as its Reads see it.
type reading struct{ *Actor }

// Phase is reads.Handle's, as what follows is.
func (r reading) Phase() uint64 { return r.phase.Load() }

func (r reading) Usable() error { return r.check() }

func (r reading) Owned(ctx context.Context, src kv.Reader) error { return r.owned(ctx, src) }

func (r reading) StateOwned(ctx context.Context) error {
	switch {
	case !r.closed.Load():
		return r.owned(ctx, r.store.eng)
	case r.store.eng.Incarnation() != r.incarnation.of():
		// No handle is left to find its newest commit again.
		return errLost(errors.New("the snapshot's handle was closed before"))
	}
	return nil // its owner's to the last
}

func (r reading) Pin(ctx context.Context) (kv.Snapshot, uint64, error) {
	a := r.Actor
	// If no commit was under way before or began since, the state is that of seq.
	phase, seq := a.phase.Load(), a.Seq()
	var snap kv.Snapshot
	var err error
	if phase%2 == 0 && a.host == nil {
		snap, err = a.store.shared.take(ctx, a.store.eng, a.landed.Load())
	} else {
		snap, err = a.store.eng.Snapshot(ctx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("actorstore: snapshot of actor %s: %w", a.id, err)
	}
	// A handle that is closed by now may have been when the engine made the snapshot, and
	// then it is another's state.
	if err := errors.Join(a.check(), a.owned(ctx, snap)); err != nil {
		return nil, 0, errors.Join(err, snap.Close())
	}
	if phase%2 == 0 && a.phase.Load() == phase {
		return snap, seq, nil
	}
	rec, err := loadRecord(ctx, snap, a.id)
	if err != nil {
		return nil, 0, errors.Join(err, snap.Close())
	}
	return snap, rec.head.Seq, nil
}

// ID returns whose state it is.
func (s *Snapshot) ID() ID {
	id, _ := layout.ActorOf(s.state.Rows.Prefix[:]) // made of an id
	return ID(id)
}

// Seq returns the number of the commit whose state this is, 0 before the first.
func (s *Snapshot) Seq() uint64 { return s.state.Seq }

// Get appends the value of key to dst. See Reader.
func (s *Snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.read(ctx, key, dst, true)
}

// Page appends the first 10,000 bytes of the value of key to dst. See Reader.
func (s *Snapshot) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.read(ctx, key, dst, false)
}

func (s *Snapshot) read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if err := s.state.Err(); err != nil {
		return dst, err
	}
	return s.state.Read(ctx, key, dst, whole)
}

// List yields the entries that opts select. See Reader.
func (s *Snapshot) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return list(ctx, &s.state.Rows, opts, func() error {
		if err := s.listable(); err != nil {
			return err
		}
		return s.state.Owned(ctx)
	})
}

// listable says why s can't be listed.
func (s *Snapshot) listable() error {
	if err := s.state.Err(); err != nil || s.state.Lists {
		return err
	}
	return errPagesOnly
}

// Close releases the state. No read may be running or start after. A second Close
// returns nil.
func (s *Snapshot) Close() error { return s.state.Close() }

// Prefetch reads the keys in [start, end), at most limit of them, with one Scan of
// the engine, and keeps the values of at most 10,000 bytes in the cache of the Store,
// from where Page and Get then have them. A nil end and a limit of 0 mean without
// bound. It returns how many are kept; those that a commit has touched since the
// state of s, or is just touching, are not. Without a cache, for a View, and for
// a state that the engine keeps because it isn't the newest one, it does nothing.
//
// What doesn't fit into the cache together evicts itself: a quarter of
// Options.CacheBytes is for what was not read twice, of all actors.
func (s *Snapshot) Prefetch(ctx context.Context, start, end []byte, limit int) (int, error) {
	if err := s.state.Err(); err != nil {
		return 0, err
	}
	return s.state.Prefetch(ctx, s.state.Rows.Bounds(start, end), limit)
}

// Cached says whether Page of key would be answered from memory. It asks nothing of the
// engine, and doesn't count as a use of what is there.
func (s *Snapshot) Cached(key []byte) bool { return s.state.Cached(key) }

// User returns the user keys of the snapshot; writing is ErrReadOnly.
func (s *Snapshot) User() *User { return &User{s, nil} }

// attributes reads what the actor is found by in a state. edit, unless it is nil, may change that.
func (s *Snapshot) attributes(ctx context.Context, edit func(ctx context.Context, from Reader, at *Attributes) error) (of Attributes, err error) {
	id := layout.ID(s.ID())
	key := layout.RecordKey(id, layout.PartIndex)
	for e, err := range s.state.Rows.Source.Scan(ctx, kv.Range{Start: key, End: layout.AppendBelow(bytes.Clone(key))}) {
		if err = errors.Join(err, s.state.Err()); err != nil {
			return of, err
		}
		found, err := layout.ParseAttributes(id, e.Value)
		if err != nil {
			return of, err
		}
		of = attributesOf(&found)
	}
	if edit != nil {
		err = edit(ctx, s, &of)
	}
	return of, errors.Join(err, s.state.Owned(ctx))
}
