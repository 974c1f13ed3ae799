package history

import (
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// An orphan is metadata of an entry that isn't there: a program that deletes both one after
// the other has ended in between. An entry that is put with its id takes it; else commits
// remove it, a few each time.
type orphan struct {
	*Metadata
	size int
}

// maxOrphans is how many orphans a commit removes, and maxBeside how many writes it has at
// most: it must not become too large for that.
const (
	maxOrphans = 8
	maxBeside  = 32
)

// stageOrphans stages that some orphans are removed, if there is something to write. They
// are no orphans from here on: nothing may take one.
//
// +checklocks:tx.h.mu
func (tx *Tx) stageOrphans(b *batch.Batch) {
	p, m := &tx.plan, &tx.h.m
	if len(p.writes) == 0 || len(p.writes) > maxBeside || slices.Contains(tx.spans, everything) {
		return
	}
	for len(m.lost) > 0 && len(p.orphans) < maxOrphans {
		id := m.lost[0]
		o, ok := m.orphans[id]
		if ok && tx.findID(id) >= 0 {
			return // it is about to be taken
		}
		if m.lost = m.lost[1:]; ok {
			delete(m.orphans, id)
			p.orphans = append(p.orphans, lostOrphan{id, o})
			p.key = appendMetadataKey(p.layout, p.key[:0], id)
			b.DeletePrior(p.key, batch.Stored(o.size))
		}
	}
}

// A lostOrphan is one that a commit removes.
type lostOrphan struct {
	id string
	orphan
}

// dropOrphans takes what was removed off the count.
//
// +checklocks:tx.h.mu
func (tx *Tx) dropOrphans() {
	for _, o := range tx.plan.orphans {
		tx.h.m.count(metadataKeySize(tx.h.m.layout, o.id), o.size, absent)
	}
	tx.plan.orphans = nil
}

// keepOrphans gives back what wasn't removed after all.
//
// +checklocks:tx.h.mu
func (tx *Tx) keepOrphans() {
	m := &tx.h.m
	for _, o := range tx.plan.orphans {
		if l, ok := m.ids[o.id]; ok { // put meanwhile
			m.records[l].metaSize = o.size
			continue
		}
		m.orphans[o.id] = o.orphan
		m.lost = append(m.lost, o.id)
	}
	tx.plan.orphans = nil
}

// removeOrphans forgets all.
func (m *memory) removeOrphans() {
	for id, o := range m.orphans {
		m.count(metadataKeySize(m.layout, id), o.size, absent)
	}
	clear(m.orphans)
	m.lost = nil
}
