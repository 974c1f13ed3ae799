package actorstore

import (
	"context"

	"github.com/greenroomdb/greenroom/kv"
)

// Limits and errors that tests are about.
var (
	ErrPagesOnly = errPagesOnly
	ErrNote      = errNote
)

const (
	HintsBeside   = hintsBeside
	Layouts       = layouts
	MaxFree       = maxFree
	MaxNoteKey    = maxNoteKey
	MaxShared     = maxShared
	MaxSharedTime = maxSharedTime
	NotesOfCommit = notesOfCommit
	PageNames     = pageNames
	PageRows      = pageRows
)

// DescribeIn returns a key of the layout in words, "" if no namespace of the layout has it.
func DescribeIn(l Layout, key []byte) string { return l.describe(key) }

// Evict drops what the memory of the actor's Store has under a key, as a full cache does.
func Evict(a *Actor, key []byte) {
	if part := a.reads.Part(); part != nil {
		part.Remove(key)
	}
}

// Remembers reports whether the memory of the actor's Store has anything under a key.
func Remembers(a *Actor, key []byte) bool { return a.reads.Part().Get(key) != nil }

// Held returns how many places, doubts and owners of actors the memory of a Store has, and how many idle flights.
func Held(s *Store) (actors, flights int) {
	actors = len(s.places.taken) + len(s.doubts.by)
	if o := s.owners; o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		actors += len(o.open)
	}
	return actors, len(s.flights.free)
}

// A Write is what one of several actors writes by CommitSeveral.
type Write = write

// CommitSeveral and ApplySeveral are what a Joint does in the end.
func CommitSeveral(ctx context.Context, writes []Write) error {
	_, err := commitSeveral(ctx, writes, kv.Durable)
	return err
}

func ApplySeveral(ctx context.Context, writes []Write) error {
	_, err := commitSeveral(ctx, writes, kv.Applied)
	return err
}
