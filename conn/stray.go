package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// DiscardStray removes the rows among the connections that belong to no key, durably, and
// so everything that Quarantined lists as Stray, with what damage is left of records that
// were deleted. Each run of such rows goes with a commit of its own, which writes the records
// around it anew, since only a range reaches them. The quota doesn't count them. Without
// any nothing is written.
//
// Behind a record whose own rows are damaged there may be more: it must be discarded first.
// Where that is seen the error is actorstore.ErrCorrupt, and what was found before it has been removed.
func (s *Set) DiscardStray(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return ErrClosed
	}
	defer s.gate.Leave()
	for more := true; more; {
		var b batch.Batch
		b.Late(func(b *batch.Batch) (err error) {
			more, err = s.stageStray(ctx, b)
			return err
		})
		if err := s.actor.Commit(ctx, &b); err != nil {
			b.Abort(err)
			return fmt.Errorf("conn: discard stray rows: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quarantined = slices.DeleteFunc(s.quarantined, func(q Quarantined) bool { return q.Stray })
	return nil
}

// stageStray makes b clear the first run of stray rows, and says whether there was one. It
// runs under the actor's commit lock, so the records around the run are what they were.
func (s *Set) stageStray(ctx context.Context, b *batch.Batch) (found bool, err error) {
	snap, err := s.actor.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	start, end := keyRange()
	var at Stored
	var around [][]byte // the keys of the records that the range takes with it
	err = list(ctx, snap, func(st Stored) bool {
		switch {
		case at.Stray: // st is sound: else the run would not have been seen
			around = append(around, key(st.ID))
			end = append(key(st.ID), 0) // a row with nothing but its key's beginning stands at it
			return false
		case st.Stray, st.Damaged && s.unknown(st.ID):
			at = st
		default:
			start = key(st.ID)
			around = append(around[:0], start)
		}
		return at.Err == nil || at.Stray
	})
	switch {
	case err != nil || at.Err == nil:
		return false, err
	case at.Damaged:
		return true, s.stageDamaged(ctx, b, key(at.ID))
	}
	return true, stageClear(ctx, b, snap, start, end, around)
}

// unknown says whether no record of that id is known: no connection, none
// whose record couldn't be read.
func (s *Set) unknown(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bad := s.findQuarantinedLocked(id)
	return !bad && s.conns[id] == nil
}

// stageClear has b clear [start, end), and write again what of it is to stay.
func stageClear(ctx context.Context, b *batch.Batch, snap *actorstore.Snapshot, start, end []byte, stay [][]byte) error {
	values, held := make([][]byte, len(stay)), int64(0)
	for i, key := range stay {
		var err error
		if values[i], err = snap.Get(ctx, key, []byte{}); err != nil {
			return err
		}
		held += int64(len(key) + batch.WrapperBytes + len(values[i]))
	}
	if len(stay) == 0 { // a range that frees nothing would clear nothing
		b.PutPrior(start, nil, batch.Absent)
	}
	b.DeleteRangePrior(start, end, batch.Freed(held))
	for i, key := range stay {
		b.PutPrior(key, values[i], batch.Stored(len(values[i])))
	}
	return nil
}
