package actorstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Snapshot is a Reader of one state of an actor. It stays readable when its
// handle or the Store is closed, but not when the engine is, when the handle is fenced
// or poisoned before, or, once that is closed, in another kv.Incarnation. It keeps old
// versions of the whole store alive, or makes the next commit do so: close it soon. It is
// safe for concurrent use.
type Snapshot struct {
	arrangement
	space  space
	snap   kv.Snapshot // nil: see tip
	tip    *tip        // nil: a view's, or of a near engine
	owner  *Actor      // nil: a view's
	seq    uint64
	lists  bool // it may be listed
	closed atomic.Bool
}

// Snapshot pins the newest applied state of the actor.
//
// It asks nothing of a near engine but a snapshot, not even that if another actor has one
// that will do (see shared), and nothing at all of a far one,
// unless a commit is being applied at that very moment: then it reads the head to know
// its Seq.
func (a *Actor) Snapshot(ctx context.Context) (*Snapshot, error) {
	return a.snapshot(ctx, true)
}

// PageSnapshot is Snapshot for a caller that reads single keys: List is errPagesOnly. On a far
// engine the next commit pins nothing for it, as it must for a Snapshot, when memory
// has the values that the commit replaces.
func (a *Actor) PageSnapshot(ctx context.Context) (*Snapshot, error) {
	return a.snapshot(ctx, false)
}

func (a *Actor) snapshot(ctx context.Context, lists bool) (*Snapshot, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.tip != nil {
		s, err := a.tip.register(lists)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if err := a.owned(ctx, a.store.eng); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		}
	}
	s, err := a.snapshotNow(ctx)
	if err != nil {
		return nil, err
	}
	s.lists = lists
	return s, nil
}

// snapshotNow is Snapshot with one of the engine.
func (a *Actor) snapshotNow(ctx context.Context) (*Snapshot, error) {
	// If no commit was under way before or began since, the state is that of seq.
	phase, seq := a.phase.Load(), a.Seq()
	var snap kv.Snapshot
	var err error
	if phase%2 == 0 && a.tip == nil && a.host == nil {
		snap, err = a.store.shared.take(ctx, a.store.eng, a.landed.Load())
	} else {
		snap, err = a.store.eng.Snapshot(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("actorstore: snapshot of actor %s: %w", a.id, err)
	}
	s := newSnapshot(a.store, a.id, a.layout, snap)
	s.seq, s.owner, s.tip = seq, a, a.tip
	// A handle that is closed by now may have been when the engine made the snapshot, and
	// then it is another's state.
	if err := errors.Join(a.check(), a.owned(ctx, snap)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if phase%2 == 0 && a.phase.Load() == phase {
		return s, nil
	}
	rec, err := loadRecord(ctx, snap, a.id)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.seq = rec.head.Seq
	return s, nil
}

func newSnapshot(store *Store, id ID, l Layout, snap kv.Snapshot) *Snapshot {
	return &Snapshot{arrangement: arrangement{l}, space: space{src: snap, store: store, prefix: layout.NewPrefix(layout.ID(id))}, snap: snap}
}

func (s *Snapshot) check() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.owner != nil {
		return s.owner.Err()
	}
	return nil
}

// owned is check for after a read: it looks which host owns the actor now.
func (s *Snapshot) owned(ctx context.Context) error {
	switch {
	case s.owner == nil:
		return nil // a view's
	case !s.owner.closed.Load():
		return s.owner.owned(ctx, s.owner.store.eng)
	case s.owner.store.eng.Incarnation() != s.owner.incarnation.of():
		// No handle is left to find its newest commit again.
		return errLost(errors.New("the snapshot's handle was closed before"))
	}
	return nil // its owner's to the last
}

// Seq returns the number of the commit whose state this is, 0 before the first.
func (s *Snapshot) Seq() uint64 { return s.seq }

// Get appends the value of key to dst. See Reader.
func (s *Snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, err
	}
	if s.tip != nil {
		return s.readLazy(ctx, key, dst, true)
	}
	value, err := s.space.get(ctx, key, dst)
	if err := s.owned(ctx); err != nil {
		return dst, err
	}
	return value, err
}

// Page appends the first 10,000 bytes of the value of key to dst. See Reader.
func (s *Snapshot) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return dst, err
	}
	if s.tip != nil {
		return s.readLazy(ctx, key, dst, false)
	}
	if s.owner != nil && s.owner.near != nil {
		return s.owner.near.snapshotPage(ctx, s, key, dst)
	}
	value, err := s.space.page(ctx, key, dst)
	if err := s.owned(ctx); err != nil {
		return dst, err
	}
	return value, err
}

// List yields the entries that opts select. See Reader.
func (s *Snapshot) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return s.space.list(ctx, opts, func() error {
		if err := s.check(); err != nil {
			return err
		}
		if !s.lists {
			return errPagesOnly
		}
		return s.owned(ctx)
	})
}

// Close releases the state. No read may be running or start after. A second Close
// returns nil.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.snap == nil {
		return s.tip.release(s)
	}
	return s.snap.Close()
}

// A View is a Snapshot of an actor that needn't be owned: looking disturbs no owner.
type View struct {
	*Snapshot
	info  ActorInfo
	hints []byte
}

// View pins the newest applied state of the actor. An actor that was never written
// to is ErrUnknownActor. The view must be closed.
func (s *Store) View(ctx context.Context, id ID) (*View, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	snap, err := s.eng.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("actorstore: view of actor %s: %w", id, err)
	}
	rec, err := loadRecord(ctx, snap, id)
	v := &View{Snapshot: newSnapshot(s, id, rec.layout, snap)}
	v.lists = true
	if err == nil && !rec.written() {
		err = ErrUnknownActor
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("actorstore: view of actor %s: %w", id, err), v.Close())
	}
	v.info, v.seq, v.hints = rec.info(id), rec.head.Seq, rec.hints
	return v, nil
}

// Info returns what the store has recorded about the actor.
func (v *View) Info() ActorInfo { return v.info }
