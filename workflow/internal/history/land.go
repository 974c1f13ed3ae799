package history

import (
	"bytes"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A flight is a Tx in the commit that is under way, of which a batch may see several until one
// isn't refused. A batch has one flight for each History.
type flight Tx

var _ batch.Participant = (*flight)(nil)

// Late does nothing: the Tx has staged everything.
func (f *flight) Late(*batch.Batch) error { return nil }

// Landed makes memory follow what the Tx has written.
func (f *flight) Landed() {
	tx := (*Tx)(f)
	h := tx.h
	h.mu.Lock()
	tx.used = true
	change := tx.apply()
	h.mu.Unlock()
	if h.opts.Changed != nil && change.any() {
		h.opts.Changed(change)
	}
}

// Failed leaves everything as it is. Nothing of an atomic batch lands in part. Reload may have read the store before
// this: then the orphans are there already, and are put over themselves.
func (f *flight) Failed(error, bool) {
	tx := (*Tx)(f)
	tx.h.mu.Lock()
	defer tx.h.mu.Unlock()
	tx.keepOrphans()
}

// apply changes memory, and says what has changed.
//
// +checklocks:tx.h.mu
func (tx *Tx) apply() (change Change) {
	p, m := &tx.plan, &tx.h.m
	for _, s := range tx.spans {
		for _, rec := range m.remove(s) {
			change.Deleted = append(change.Deleted, rec.Entry)
		}
		if s == everything {
			m.removeOrphans()
		}
	}
	for i := range tx.changes {
		if gone := tx.applyChange(&tx.changes[i]); gone != nil {
			change.Deleted = append(change.Deleted, *gone)
		}
	}
	m.landed(p.writes)
	tx.dropOrphans()
	change.FirstName = m.stored
	for ; m.stored < p.names; m.stored++ {
		m.count(len(appendNameKey(m.layout, p.key[:0], m.stored)), absent, len(m.names[m.stored]))
	}
	if tx.h.opts.Changed != nil {
		change.Names = slices.Clone(m.names[change.FirstName:m.stored])
		change.Entries = m.changed(p.writes)
	}
	tx.applyFields()
	change.State, change.fields = m.state, p.fields != [fields]bool{}
	tx.h.written(p.deferred)
	return change
}

// applyChange puts what tx puts at one place into memory.
//
// +checklocks:tx.h.mu
func (tx *Tx) applyChange(c *change) (gone *Entry) {
	m := &tx.h.m
	rec := m.records[c.entry.Location]
	if c.value != nil {
		rec, gone = m.put(c.entry)
		rec.value = nil
	}
	if c.metaValue != nil && rec != nil && rec.ID == c.entry.ID {
		rec.Metadata, rec.metaValue = c.metadata, nil
	}
	return gone
}

// landed notes the sizes of what is stored.
func (m *memory) landed(writes []write) {
	for _, w := range writes {
		rec := m.records[w.at]
		switch {
		case w.what == whatEntry:
			m.count(entryKeySize(m.layout, w.at), rec.size, len(w.value))
			rec.size = len(w.value)
		default:
			m.count(metadataKeySize(m.layout, w.id), rec.metaSize, len(w.value))
			rec.metaSize = len(w.value)
		}
	}
}

// changed returns the entries that were written, each once, sorted.
func (m *memory) changed(writes []write) []Entry {
	es := make([]Entry, 0, len(writes))
	for _, w := range writes {
		es = append(es, m.records[w.at].Entry)
	}
	slices.SortFunc(es, byLocation)
	return slices.CompactFunc(es, func(a, b Entry) bool { return a.Location == b.Location })
}

// applyFields puts the fields that tx sets into memory, and notes what is stored.
//
// +checklocks:tx.h.mu
func (tx *Tx) applyFields() {
	p, m := &tx.plan, &tx.h.m
	tx.setFields()
	for f := range fields {
		if !p.fields[f] {
			continue
		}
		if f == fieldState {
			m.values[f] = p.text
		}
		size := absent
		if m.values[f] != nil {
			size = len(m.values[f])
		}
		m.count(len(appendFieldKey(m.layout, p.key[:0], f)), m.sizes[f], size)
		m.sizes[f] = size
	}
}

// setFields makes the fields in memory what tx sets.
//
// +checklocks:tx.h.mu
func (tx *Tx) setFields() {
	m := &tx.h.m
	if tx.set[fieldState] {
		m.state = tx.to
	}
	for f := fieldState + 1; f < fields; f++ {
		if tx.sets(f) {
			m.values[f] = tx.values[f]
		}
	}
	if tx.sets(fieldError) {
		m.failure = tx.failure
	}
}

// written forgets that something was deferred which has been written since.
//
// +checklocks:h.mu
func (h *History) written(c batch.Captured[deferred]) {
	h.dirty.Clear(c)
	for _, d := range c.Keys() {
		rec := h.m.records[d.at]
		if rec == nil || h.dirty.Dirty(d) {
			continue // gone, or deferred again
		}
		switch d.what {
		case whatEntry:
			rec.value = nil
		case whatMetadata:
			rec.metaValue = nil
		}
	}
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
		err = tx.allowed()
	}
	if err != nil {
		return err
	}
	if tx.removing() {
		panic("history: what is removed can't be deferred")
	}
	tx.used = true
	for i := range tx.changes {
		tx.deferChange(&tx.changes[i])
	}
	tx.setFields()
	for f := range fields {
		if tx.sets(f) {
			h.dirty.Mark(deferred{what: whatField, field: f})
		}
	}
	return nil
}

// removing reports whether tx removes something.
//
// +checklocks:tx.h.mu
func (tx *Tx) removing() bool {
	return len(tx.spans) > 0 || slices.ContainsFunc(tx.changes, func(c change) bool {
		rec := tx.h.m.records[c.entry.Location]
		return rec != nil && rec.ID != c.entry.ID
	})
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
	if c.metaValue != nil && rec != nil && !rec.stores(c) {
		rec.Metadata, rec.metaValue = c.metadata, bytes.Clone(c.metaValue)
		tx.h.dirty.Mark(deferred{what: whatMetadata, at: l})
	}
}
