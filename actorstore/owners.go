package actorstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// An owner that was replaced learns of it in one of two ways, besides its next
// commit, which conflicts. Where all owners are in one process (kv.Sharer) the new
// one tells the old ones, before its opening returns: from then on they answer
// nothing any more, and asking that is one atomic load. Everywhere else no owner
// is replaced whose host has a lease (package internal/lease), and asking that is a look at two
// clocks. When the lease is in doubt a read looks at the head afterwards, which costs a
// Get.

// owners are the open handles of all Stores on one engine.
type owners struct {
	mu   sync.Mutex
	open map[ID]*owning // +checklocks:mu
}

// An owning is the open handles to one actor.
type owning struct {
	handles []*Actor
	// epoch is the highest of a handle so far. The head may forget it, by Drop, while
	// a handle with an older one is still to find out.
	epoch uint64
}

// ownersKey is where the owners are in the map that users of an engine share.
type ownersKey struct{}

// ownersOf returns the owners on eng, nil when its users may be anywhere.
func ownersOf(eng kv.Engine) *owners {
	shared := kv.Shared(eng)
	if shared == nil {
		return nil
	}
	o, _ := shared.LoadOrStore(ownersKey{}, &owners{open: map[ID]*owning{}})
	return o.(*owners)
}

// enter adds a handle that is being opened.
func (o *owners) enter(a *Actor) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[a.id] == nil {
		o.open[a.id] = new(owning)
	}
	o.open[a.id].handles = append(o.open[a.id].handles, a)
}

// leave removes a handle that is closed.
func (o *owners) leave(a *Actor) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.open[a.id]
	if own == nil {
		return
	}
	own.handles = slices.DeleteFunc(own.handles, func(b *Actor) bool { return a == b })
	if len(own.handles) == 0 {
		delete(o.open, a.id)
	}
}

// other reports whether a handle of another Store of this process has the actor open.
func (o *owners) other(s *Store, id ID) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.open[id]
	return own != nil && slices.ContainsFunc(own.handles, func(a *Actor) bool { return a.store != s && a.check() == nil })
}

// alone says whether the actor can't have another handle.
func (o *owners) alone(a *Actor) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open[a.id].handles) == 1
}

// next returns the epoch for a claim of a's actor, whose head has epoch now.
func (o *owners) next(a *Actor, now uint64) uint64 {
	if o == nil {
		return now + 1
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(now, o.open[a.id].epoch) + 1
}

// reserve raises the epoch of h for a, unless another handle to the actor is open, or has been since h was stored.
func (o *owners) reserve(a *Actor, h *layout.Head) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.open[a.id]
	if len(own.handles) > 1 || own.epoch > h.Epoch {
		return false
	}
	h.Epoch++
	own.epoch = h.Epoch
	return true
}

// passed reports whether a handle to a's actor has had a higher epoch than a.
func (o *owners) passed(a *Actor) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[a.id].epoch > a.head.Epoch
}

// settle fences every handle whose epoch is over, now that a has one: most often
// those before a, but also a itself, if another was faster.
func (o *owners) settle(a *Actor) {
	if o == nil {
		a.epoch.Store(a.head.Epoch)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a.epoch.Store(a.head.Epoch)
	own := o.open[a.id]
	own.epoch = max(own.epoch, a.head.Epoch)
	for _, b := range own.handles {
		switch e := b.epoch.Load(); {
		case e == 0: // not open yet: it will find the head of this one
		case b.check() != nil: // it answers nothing any more
		case e < a.head.Epoch:
			b.fail(ErrFenced, errReplaced)
		case e > a.head.Epoch:
			a.fail(ErrFenced, errReplaced)
		}
	}
}

// errReplaced is why a handle is fenced that didn't have to find out by itself.
var errReplaced = errors.New("another owner took it over")

// An ownership is a handle that makes sure that its actor is its own still. It is the lease.Handle of its host.
type ownership struct{ *Actor }

// ownHead reads the head, and fences the handle if it is another owner's.
func (a ownership) ownHead(ctx context.Context, src kv.Reader) (layout.Head, error) {
	row, err := src.Get(ctx, a.headKey, nil)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		// A handle of such an engine begins with a claim, so the head was there.
		return layout.Head{}, a.lost(errors.New("the actor was dropped"))
	case err != nil:
		return layout.Head{}, fmt.Errorf("%w: read the head of actor %s: %w", ErrLeaseLost, a.id, err)
	}
	h, err := layout.ParseHead(layout.ID(a.id), row)
	if err == nil && [8]byte(h.Last[:8]) != a.nonce {
		err = a.lost(errReplaced)
	}
	return h, err
}

// lost fences the handle, unless it was just closed by a Drop of its own.
func (a ownership) lost(cause error) error {
	if a.closed.Load() {
		return ErrClosed
	}
	return a.fail(ErrFenced, cause)
}

// Fence fences the handle: its host has lost the actor.
func (a ownership) Fence(cause error) { _ = a.lost(cause) }

// Survey looks whether the newest commit is still stored: a handle that has lost it says so.
func (a ownership) Survey(ctx context.Context, in kv.Incarnation) {
	if a.opened() && a.check() == nil && a.incarnation.of() != in {
		_ = a.survey(ctx)
	}
}

// still returns ErrFenced if the actor has another owner, as far as that can be told
// from what src holds. Asked after a read of src, it says whether that was still the
// owner's to read.
func (a ownership) still(ctx context.Context, src kv.Reader) error {
	if a.store.owners != nil {
		return a.Err()
	}
	if a.store.eng.Incarnation() != a.incarnation.of() {
		if err := a.survey(ctx); err != nil {
			return err
		}
	}
	if !a.host.Valid() {
		if _, err := a.ownHead(ctx, src); err != nil {
			return err
		}
	}
	return a.Err()
}

// survey looks, in a new incarnation, whether the actor's newest commit is still stored. If
// it isn't the handle is poisoned, and the error wraps kv.ErrUnknownOutcome; if the
// engine can't be asked the error wraps ErrLeaseLost, and the handle is as it was.
func (a ownership) survey(ctx context.Context) error {
	for {
		seq, in := a.Seq(), a.store.eng.Incarnation()
		h, err := a.ownHead(ctx, a.store.eng)
		switch {
		case errors.Is(err, ErrFenced):
			// It has another owner, which may have begun where this one's commits were lost.
			return fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
		case err != nil:
			return err
		case h.Seq < seq:
			return a.fail(ErrPoisoned, errLost(fmt.Errorf("commit %d is the newest that is stored, of %d", h.Seq, seq)))
		}
		if a.incarnation.surveyed(in, func() bool { return a.Seq() == seq }) {
			return nil
		}
		if a.incarnation.of() == in { // by a commit that has found its head
			return nil
		}
	}
}
