package history

import (
	"bytes"
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
)

// Stage makes tx land with b, together with everything that was deferred and all new names.
// What is written is decided under the actor's commit lock, when b is sealed; b must be
// Atomic and take no other Tx of this History, else it is refused then, as it is with the
// errors of the methods above. Memory changes when b is applied. If b is given up tx is as
// it was, and may be staged again.
//
// A commit reads nothing for it.
func (tx *Tx) Stage(b *batch.Batch) { b.Enlist(tx, (*staged)(tx)) }

// Commit lands tx in a batch of its own and returns when it is on stable storage, and so
// is everything that was committed before. Errors are those of the methods above and of
// Actor.Commit. If there is nothing to write it writes nothing.
func (tx *Tx) Commit(ctx context.Context) error {
	b := tx.h.works.Get().(*batch.Batch)
	tx.Stage(b)
	err := tx.h.actor.Commit(ctx, b)
	b.Reset()
	tx.h.works.Put(b)
	return err
}

// A staged is a Tx in the batch in which it is staged, whose batch.Participant it is.
type staged Tx

var _ batch.Participant = (*staged)(nil)

// Landed does nothing: see flight.
func (*staged) Landed() {}

// Failed does nothing: see flight.
func (*staged) Failed(error, bool) {}

// Late stages everything. The batch calls it again when it is sealed again after a refusal.
func (s *staged) Late(b *batch.Batch) error {
	tx := (*Tx)(s)
	h := tx.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := tx.ready(b); err != nil {
		return err
	}
	var later batch.Captured[deferred]
	if h.dirty.Len() > 0 && tx.naming == 0 {
		later = h.dirty.Capture()
	}
	tx.plan.begin(&h.m, &tx.draft, b, later)
	tx.plan.stage()
	state, stuck := tx.plan.found()
	h.actor.StageWorkflow(b, state, stuck)
	// The flight comes first, so that memory follows the commit before Reload or Close goes on.
	b.Enlist(h, (*flight)(tx))
	return h.enter(b, &tx.entry)
}

// ready says why tx can't be staged.
//
// +checklocks:tx.h.mu
func (tx *Tx) ready(b *batch.Batch) error {
	h := tx.h
	if err := h.usable(); err != nil {
		return err
	}
	switch {
	case tx.used:
		return errUsed
	case b.Mode != batch.Atomic:
		return errOrdered
	case b.Enlisted(h) != nil:
		return errTwo
	}
	if err := tx.allowed(h.m.state); err != nil {
		return err
	}
	for i := range tx.changes {
		c := &tx.changes[i]
		if rec := tx.record(&h.m, c.entry.Location); c.value == nil && (rec == nil || rec.ID != c.entry.ID) {
			return fmt.Errorf("%w metadata: the entry %s is gone", errInvalid, appendPath(nil, c.entry.Location, h.m.names))
		}
	}
	return nil
}

var errTwo = fmt.Errorf("%w batch: it has another transaction of this history", errInvalid)

var errOrdered = fmt.Errorf("%w batch: a history lands whole, and the batch is %v", errInvalid, batch.Ordered)

// A flight is a Tx in the commit that is under way, of which a batch may see several until one
// isn't refused. A batch has one flight for each History.
type flight Tx

var _ batch.Participant = (*flight)(nil)

// Late does nothing: the Tx has staged everything.
func (f *flight) Late(*batch.Batch) error { return nil }

// Landed makes memory follow what the Tx has written.
func (f *flight) Landed() {
	h, told := f.h, f.h.opts.Changed
	h.mu.Lock()
	f.used = true
	change := f.plan.follow(told != nil)
	h.written(f.plan.deferred)
	h.mu.Unlock()
	if told != nil && change.any() {
		told(change)
	}
}

// Failed leaves everything as it is. Nothing of an atomic batch lands in part. Reload may have read the store before
// this: then the orphans are there already, and are put over themselves.
func (f *flight) Failed(error, bool) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.plan.giveUp()
}

// Defer changes memory at once, and leaves it to the next commit of this History to write
// it, or never. What is removed can't be deferred: with a Delete, a Reset or an entry of
// another ID in the place of one, Defer panics. The errors are those of Stage.
func (tx *Tx) Defer() error {
	h := tx.h
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.usable()
	switch {
	case err != nil:
	case tx.used:
		err = errUsed
	default:
		err = tx.allowed(h.m.state)
	}
	if err != nil {
		return err
	}
	if tx.removing(&h.m) {
		panic("history: what is removed can't be deferred")
	}
	tx.used = true
	for i := range tx.changes {
		tx.deferChange(&tx.changes[i])
	}
	h.m.follow(&tx.fieldChanges)
	for f := range fields {
		if tx.sets(f) {
			h.dirty.Mark(deferred{what: whatField, field: f})
		}
	}
	return nil
}

// deferChange puts a change into memory, and marks it.
//
// +checklocks:tx.h.mu
func (tx *Tx) deferChange(c *change) {
	l := c.entry.Location
	rec := tx.h.m.records[l]
	if c.value != nil {
		rec, _ = tx.h.m.put(c.entry)
		rec.value = bytes.Clone(c.value) // the memory of tx is used again
		tx.h.dirty.Mark(deferred{what: whatEntry, at: l})
	}
	if c.metaValue != nil && rec != nil && !c.stored(rec) {
		rec.Metadata, rec.metaValue = c.metadata, bytes.Clone(c.metaValue)
		tx.h.dirty.Mark(deferred{what: whatMetadata, at: l})
	}
}
