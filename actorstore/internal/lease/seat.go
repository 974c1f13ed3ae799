package lease

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Seat is what a handle has of its host's lease. Valid and Host are safe for concurrent use, the rest is for what opens and
// closes the handle.
type Seat struct {
	lease *lease
	held  held
}

// Host returns the id of the host. It doesn't change.
func (s *Seat) Host() [16]byte { return s.lease.id }

// Valid says whether the lease holds at this moment. It neither blocks nor reads.
func (s *Seat) Valid() bool { return s.lease.valid() }

// Claim returns the operation that makes the handle the actor's owner: it lands with the head that the handle writes, in a
// durable commit. nonce is half of the ids of the handle's commits.
func (s *Seat) Claim(nonce [8]byte) kv.Op {
	o := layout.Owner{Host: s.lease.id, Nonce: nonce}
	s.held.row = o.Append(nil)
	return kv.Set(layout.RecordKey(s.held.id, layout.PartOwner), s.held.row)
}

// Claimed notes what became of the commit with the newest Claim.
func (s *Seat) Claimed(err error) {
	if s.held.landed = err == nil; errors.Is(err, kv.ErrConflict) {
		s.held.row = nil
	}
}

// Dropped notes that the actor is gone, and its owner row with it, by a commit of that incarnation of the engine.
func (s *Seat) Dropped(in kv.Incarnation) { s.held.row, s.held.dropped = nil, in }

// Leave ends the seat, and removes the claim together with index. If known is false the store says what lands with it: Config.Yield.
// What can't be removed now is tried again with the renewals, and ends with the host.
func (s *Seat) Leave(index Index, known bool) {
	u := unclaim{row: s.held.row, index: index, known: known, tries: 1}
	if !s.held.landed {
		u.tries = triesInDoubt
	}
	if s.lease.claims.leave(&s.held, u) && s.held.landed {
		ctx, cancel := context.WithTimeout(context.Background(), s.lease.every())
		defer cancel()
		_ = s.lease.claims.release(ctx, s.held.id, u) // it is tried again
	}
}
