package history

// An orphan is metadata of an entry that isn't there: a program that deletes both one after
// the other has ended in between. An entry that is put with its id takes it; else commits
// remove it, a few each time.
type orphan struct {
	*Metadata
	size int
}

// A lostOrphan is an orphan with its id.
type lostOrphan struct {
	id string
	orphan
}

// orphans are all metadata of a workflow that have no entry. They are a part of memory, under its lock.
type orphans struct {
	byID map[string]orphan
	lost []string // ids of orphans, the longest known first; some are no orphans any more
}

func (o *orphans) add(l lostOrphan) {
	o.byID[l.id] = l.orphan
	o.lost = append(o.lost, l.id)
}

// take takes out the orphan of that id.
func (o *orphans) take(id string) (orphan, bool) {
	taken, ok := o.byID[id]
	delete(o.byID, id)
	return taken, ok
}

// pop takes out the orphan that is known longest. ok is false without one, and if kept says that its entry is about to be put.
func (o *orphans) pop(kept func(id string) bool) (l lostOrphan, ok bool) {
	for len(o.lost) > 0 && !ok {
		l.id = o.lost[0]
		if _, ok = o.byID[l.id]; ok && kept(l.id) {
			return l, false
		}
		o.lost = o.lost[1:]
		l.orphan, ok = o.take(l.id)
	}
	return l, ok
}

// keep gives back what pop took out and wasn't removed after all.
func (m *memory) keep(lost []lostOrphan) {
	for _, o := range lost {
		if l, ok := m.ids[o.id]; ok { // put meanwhile
			m.records[l].metaSize = o.size
			continue
		}
		m.orphans.add(o)
	}
}

// drop takes what pop took out, and was removed, off the count.
func (m *memory) drop(lost []lostOrphan) {
	for _, o := range lost {
		m.count(metadataKeySize(m.layout, o.id), o.size, absent)
	}
}

// removeOrphans forgets all orphans, which were removed.
func (m *memory) removeOrphans() {
	for id, o := range m.orphans.byID {
		m.count(metadataKeySize(m.layout, id), o.size, absent)
	}
	clear(m.orphans.byID)
	m.orphans.lost = nil
}
