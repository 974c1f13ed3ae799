package actorstore

import "sync/atomic"

// published is what readers may see of an actor's newest applied state.
type published struct {
	id    ID
	epoch atomic.Uint64 // of the head that the handle wrote; 0 while it is being opened

	// Of the head; durable is up to where it is that for sure.
	seq, used, durable atomic.Int64
	incarnation        incarnation
	wake               atomic.Pointer[wakeRow] // as stored, nil for none
	name               atomic.Pointer[string]
	// phase is odd while an engine commit is under way, and never the same again.
	phase atomic.Uint64
	// landed is when the newest applied commit was that; see shared. While phase is even
	// it is right.
	landed atomic.Uint64
}

// ID returns the actor's id.
func (s *published) ID() ID { return s.id }

// Name returns the actor's name, "" when it has none.
func (s *published) Name() string { return *s.name.Load() }

// Seq returns the number of the newest applied commit, 0 before the first. Every
// sub-batch of an Ordered batch is a commit.
func (s *published) Seq() uint64 { return uint64(s.seq.Load()) }

// Used returns the bytes that the actor stores: Σ(key + 2 + value) over its keys.
func (s *published) Used() int64 { return s.used.Load() }

// opened says that the handle has taken the actor over.
func (s *published) opened() bool { return s.epoch.Load() != 0 }

// Wake returns what the store says of when the actor must be woken: the zero Wake for never. Tried must not be modified.
func (s *published) Wake() Wake { return s.wake.Load().wake() }
