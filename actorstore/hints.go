package actorstore

import "sync/atomic"

// Hints say what of an actor is read first when it is opened, so that one read can fetch
// it. They lie beside the head, in a row of their own that is read with it; what they
// mean is the business of their writer. They are never more than hints: nothing is
// wrong about an actor whose hints are old, or gone.

// MaxHints bounds the hints of an actor, in bytes: every listing of actors reads them.
const MaxHints = 2048

// hintsBeside is the size of a commit, in writes, up to which hints travel with it: a
// larger one may need all the room that the engine has.
const hintsBeside = 64

// hints are those of a handle's actor.
type hints struct {
	stored  atomic.Pointer[[]byte] // nil before that is known
	pending atomic.Pointer[[]byte] // those that wait for a commit, nil when none do
}

// Hints returns the hints that are stored, nil for none. They must not be changed.
func (h *hints) Hints() []byte {
	if p := h.stored.Load(); p != nil {
		return *p
	}
	return nil
}

// SetHints replaces the actor's hints with the next commit of the handle. It writes
// nothing by itself, and without another commit they stay what they are. The handle
// keeps hints, which must not change. More than MaxHints bytes are cut to none.
func (h *hints) SetHints(hints []byte) {
	if len(hints) > MaxHints {
		hints = nil
	}
	h.pending.Store(&hints)
}
