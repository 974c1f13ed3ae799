package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Notes are small rows about an actor that lie beside its keys: what a package wants to
// remember and the format of the actor's keyspace has no place for. They land with a
// batch, are dropped with the actor, copied by Fork, and known to Check. They are no
// keys: List doesn't show them, DeleteRange doesn't reach them, and the quota doesn't
// count them, which is why there are bounds.

// Bounds of notes. The number is kept by their writers, and looked at by Check.
const (
	maxNoteKey   = 64      // bytes of a note's key, at least 1
	MaxNoteValue = 256     // bytes of its value
	MaxNotes     = 1 << 16 // notes of one actor
)

// notesOfCommit is how many notes Fork copies with one commit.
const notesOfCommit = 512

// errNote: the key of a note is empty, or something of it is too large.
var errNote = errors.New("actorstore: bad note")

// A Note is one of the rows. Package comments of their writers say what they mean; the
// first byte of a key says whose it is, and is that of the namespace it belongs to.
type Note struct {
	Key, Value []byte
}

// Notes yields the notes whose keys begin with prefix, in the order of their keys, all
// of the state that s shows. The slices are valid until the next iteration. An error is
// yielded once, with a zero Note, and ends the sequence.
func (s *Snapshot) Notes(ctx context.Context, prefix []byte) iter.Seq2[Note, error] {
	return func(yield func(Note, error) bool) {
		err := s.listable()
		if err == nil {
			var on bool
			if on, err = s.eachNote(ctx, prefix, yield); !on {
				return
			}
		}
		if err != nil {
			yield(Note{}, fmt.Errorf("actorstore: notes: %w", err))
		}
	}
}

// eachNote reports whether the consumer goes on with the iteration.
func (s *Snapshot) eachNote(ctx context.Context, prefix []byte, yield func(Note, error) bool) (on bool, err error) {
	id := s.ID()
	start, end := layout.NotesRange(layout.ID(id))
	for e, err := range s.state.Rows.Source.Scan(ctx, kv.Range{Start: start, End: end}) {
		if err == nil {
			err = errors.Join(s.state.Err(), s.state.Owned(ctx))
		}
		if err != nil {
			return true, err
		}
		of, key, ok := layout.ParseNoteKey(e.Key)
		if !ok || ID(of) != id {
			return true, fmt.Errorf("row %x is no note of actor %s: %w", e.Key, id, ErrCorrupt)
		}
		if bytes.HasPrefix(key, prefix) && !yield(Note{key, e.Value}, nil) {
			return false, nil
		}
	}
	return true, s.state.Owned(ctx)
}
