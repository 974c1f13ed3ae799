package conn

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A Stored is what lies under the key of one connection.
type Stored struct {
	ID      ID        // as the key has it
	Record  *Record   // nil if it can't be read
	Err     error     // why it can't: ErrCorrupt or ErrNewerFormat
	Size    int       // bytes of the value
	Updated time.Time // when it was written, to the millisecond
}

// List yields the connections that r has stored, in the order of their ids, all of one
// state. One that can't be read comes with its Err, and doesn't end the sequence. What
// is yielded is the caller's.
//
// An error is yielded once, with a zero Stored, and ends the sequence: the engine's, or
// ErrCorrupt if not the value but the rows that hold it are damaged, which a check of
// the store tells more about.
func List(ctx context.Context, r actorstore.Reader) iter.Seq2[Stored, error] {
	start, end := keyRange()
	return func(yield func(Stored, error) bool) {
		for e, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end}) {
			if err != nil {
				yield(Stored{}, fmt.Errorf("conn: list: %w", err))
				return
			}
			if !yield(readEntry(e), nil) {
				return
			}
		}
	}
}

func readEntry(e actorstore.Entry) Stored {
	s := Stored{ID: keyID(e.Key), Size: e.Size, Updated: e.Updated}
	s.Record, s.Err = ParseRecord(e.Value)
	// Under another key it would be saved there, and be two connections.
	if s.Err == nil && s.Record.ID != s.ID {
		s.Err = fmt.Errorf("conn: record: it is that of %q: %w", s.Record.ID, ErrCorrupt)
		s.Record = nil
	}
	return s
}

// A Quarantined is a stored record that can't be read. It stays as it is, and nothing
// else is kept from working by it.
type Quarantined struct {
	ID   ID    // as the key has it
	Size int   // bytes of the value
	Err  error // ErrCorrupt, or ErrNewerFormat
}

// Quarantined returns the records that Open could not read, in the order of their ids.
// The slice is the caller's.
func (s *Set) Quarantined() []Quarantined {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Quarantined(nil), s.quarantined...)
}

// Discard deletes a quarantined record, durably: nothing can be made of it any more. If
// there is none of that id, the error is ErrUnknown.
func (s *Set) Discard(ctx context.Context, id ID) error {
	if err := s.check(); err != nil {
		return err
	}
	if _, ok := s.findQuarantined(id); !ok {
		return fmt.Errorf("%w: %q", ErrUnknown, string(id))
	}
	if err := s.actor.Delete(ctx, key(id)); err != nil {
		return fmt.Errorf("conn: discard %q: %w", string(id), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.findQuarantinedLocked(id); ok {
		s.quarantined = append(s.quarantined[:i], s.quarantined[i+1:]...)
	}
	return nil
}

func (s *Set) findQuarantined(id ID) (i int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findQuarantinedLocked(id)
}

// +checklocks:s.mu
func (s *Set) findQuarantinedLocked(id ID) (i int, ok bool) {
	for i := range s.quarantined {
		if s.quarantined[i].ID == id {
			return i, true
		}
	}
	return 0, false
}
