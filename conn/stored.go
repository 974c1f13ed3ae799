package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A Stored is what lies under the key of one connection.
type Stored struct {
	ID      ID        // as the key has it
	Record  *Record   // nil if it can't be read
	Err     error     // why it can't: actorstore.ErrCorrupt or actorstore.ErrNewerFormat
	Size    int       // bytes of the value
	Updated time.Time // when it was written, to the millisecond
	// Damaged: not only what the value means is lost, but the rows that hold it are
	// damaged. Size and Updated can't be told then.
	Damaged bool
	// Stray: there are rows here that belong to no key, and so the ID is missing too.
	Stray bool
}

// List yields the connections that r has stored, in the order of their ids, all of one
// state. One that can't be read comes with its Err, and doesn't end the sequence; nor do
// rows that are damaged if r is an *actorstore.Actor, a Snapshot or a View. What is yielded
// is the caller's.
//
// An error is yielded once, with a zero Stored, and ends the sequence: the engine's, or
// actorstore.ErrCorrupt for damaged rows that r can't read around.
func List(ctx context.Context, r actorstore.Reader) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		if err := list(ctx, r, func(s Stored) bool { return yield(s, nil) }); err != nil {
			yield(Stored{}, fmt.Errorf("conn: list: %w", err))
		}
	}
}

// list is List; it returns the error.
func list(ctx context.Context, r actorstore.Reader, yield func(Stored) bool) (err error) {
	if actor, ok := r.(*actorstore.Actor); ok { // which can't read around damage by itself
		snap, err := actor.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer func() {
			if e := snap.Close(); err == nil {
				err = e
			}
		}()
		return list(ctx, snap, yield)
	}
	start, end := keyRange()
	w := walk{r: r, next: start, end: end, yield: yield}
	for !w.over {
		err := w.sound(ctx)
		if errors.Is(err, actorstore.ErrCorrupt) {
			err = w.around(ctx, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A surveyor lists keys, and goes on behind those whose rows are damaged.
type surveyor interface {
	Survey(ctx context.Context, start, end []byte) iter.Seq2[actorstore.Entry, error]
}

// A walk is one iteration of List.
type walk struct {
	r         actorstore.Reader
	next, end []byte // what is left
	yield     func(Stored) bool
	over      bool // nothing is left, or the caller wants no more
}

// found yields s; the walk goes on behind its key.
func (w *walk) found(key []byte, s Stored) {
	w.next = append(append(w.next[:0:0], key...), 0)
	w.over = !w.yield(s)
}

// sound yields what there is up to the first damage, which it returns.
func (w *walk) sound(ctx context.Context) error {
	for e, err := range w.r.List(ctx, actorstore.ListOptions{Start: w.next, End: w.end}) {
		if err != nil {
			return err
		}
		if w.found(e.Key, readEntry(e)); w.over {
			return nil
		}
	}
	w.over = true
	return nil
}

// around yields the next key where a listing has failed with damage: it asks for that key
// alone.
func (w *walk) around(ctx context.Context, damage error) error {
	s, ok := w.r.(surveyor)
	if !ok {
		return damage
	}
	for e, err := range s.Survey(ctx, w.next, w.end) {
		if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
			return err
		}
		if err != nil {
			w.found(e.Key, Stored{ID: keyID(e.Key), Err: err, Damaged: true})
			return nil
		}
		// What ended the listing are rows before this key, which is sound.
		e.Key = append([]byte(nil), e.Key...)
		if e.Value, err = w.r.Get(ctx, e.Key, nil); err != nil {
			return err
		}
		if w.over = !w.yield(Stored{Err: damage, Stray: true}); !w.over {
			w.found(e.Key, readEntry(e))
		}
		return nil
	}
	w.yield(Stored{Err: damage, Stray: true})
	w.over = true
	return nil
}

func readEntry(e actorstore.Entry) Stored {
	s := Stored{ID: keyID(e.Key), Size: e.Size, Updated: e.Updated}
	s.Record, s.Err = ParseRecord(e.Value)
	// Under another key it would be saved there, and be two connections.
	if s.Err == nil && s.Record.ID != s.ID {
		s.Err = fmt.Errorf("conn: record: it is that of %q: %w", s.Record.ID, actorstore.ErrCorrupt)
		s.Record = nil
	}
	return s
}

// A Quarantined is a stored record that can't be read. It stays as it is, and nothing
// else is kept from working by it.
type Quarantined struct {
	ID   ID    // as the key has it
	Size int   // bytes of the value, 0 if it is Damaged or Stray
	Err  error // actorstore.ErrCorrupt, or actorstore.ErrNewerFormat
	// Damaged and Stray are those of Stored. Stray rows have no ID to Discard them by:
	// DiscardStray removes them all, and a check of the store (actorstore.Store.CheckActor)
	// says which they are.
	Damaged, Stray bool
}

// Quarantined returns the records that Open could not read, in the order of their ids.
// The slice is the caller's.
func (s *Set) Quarantined() []Quarantined {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Quarantined(nil), s.quarantined...)
}

// Discard deletes a quarantined record, durably, with all rows under its key: nothing can
// be made of it any more. Without a record of that id the error is ErrUnknown.
//
// If rows are damaged or lost the store can't tell how much the quota counts for them. When
// the actor has no other damage, it is what its keys don't account for, and the quota is
// exact afterwards; to know it all its rows are read. Else it is the least that it can be.
func (s *Set) Discard(ctx context.Context, id ID) error {
	if err := s.check(); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return ErrClosed
	}
	defer s.gate.Leave()
	q, ok := s.findQuarantined(id)
	if !ok {
		return fmt.Errorf("%w: %.80q", ErrUnknown, string(id))
	}
	var b batch.Batch
	if q.Damaged || q.Size == 0 { // no record is empty: its row is lost
		b.Late(func(b *batch.Batch) error { return s.stageDamaged(ctx, b, key(id)) })
	} else {
		b.Delete(key(id))
	}
	if err := s.actor.Commit(ctx, &b); err != nil {
		return fmt.Errorf("conn: discard %.80q: %w", string(id), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quarantined = slices.DeleteFunc(s.quarantined, func(q Quarantined) bool { return q.is(id) })
	return nil
}

// stageDamaged has b clear all rows of a key, whatever they are.
func (s *Set) stageDamaged(ctx context.Context, b *batch.Batch, key []byte) (err error) {
	snap, err := s.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	least, left := int64(len(key)+batch.WrapperBytes), s.actor.Used()
	there, others := false, false
	for e, err := range snap.Survey(ctx, nil, nil) {
		switch {
		case bytes.Equal(e.Key, key):
			there = true
		case err == nil:
			left -= int64(len(e.Key) + batch.WrapperBytes + e.Size)
		case e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt):
			return err
		default:
			others = true
		}
	}
	if !there {
		return nil // another goroutine was faster
	}
	if others {
		left = min(left, least)
	}
	// A range, because which rows there are isn't known. One that frees nothing would clear
	// nothing, and perhaps nothing was counted: so there is something to free.
	b.PutPrior(key, nil, batch.Absent)
	b.DeleteRangePrior(key, append(bytes.Clone(key), 0), batch.Freed(max(left, 0)))
	return nil
}

// is says whether q is the record of that id.
func (q *Quarantined) is(id ID) bool { return q.ID == id && !q.Stray }

func (s *Set) findQuarantined(id ID) (q Quarantined, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findQuarantinedLocked(id)
}

// +checklocks:s.mu
func (s *Set) findQuarantinedLocked(id ID) (q Quarantined, ok bool) {
	for _, q := range s.quarantined {
		if q.is(id) {
			return q, true
		}
	}
	return Quarantined{}, false
}
