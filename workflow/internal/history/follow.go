package history

import "slices"

// follow makes memory what p has written, and says what has changed; names and entries only if told is set.
func (p *plan) follow(told bool) (change Change) {
	d, m := p.draft, p.memory
	for _, s := range d.spans {
		for _, rec := range m.remove(s) {
			change.Deleted = append(change.Deleted, rec.Entry)
		}
		if s == everything {
			m.removeOrphans()
		}
	}
	for i := range d.changes {
		if gone := d.changes[i].apply(m); gone != nil {
			change.Deleted = append(change.Deleted, *gone)
		}
	}
	p.countWrites()
	m.drop(p.orphans)
	p.orphans = nil
	change.FirstName = m.stored
	p.countNames()
	if told {
		change.Names = slices.Clone(m.names[change.FirstName:m.stored])
		change.Entries = p.entries()
	}
	m.fieldSet.follow(&d.fieldChanges)
	p.countFields()
	change.State, change.fields = m.state, p.fields != [fields]bool{}
	return change
}

// countWrites notes the sizes of the entries and metadata that are stored.
func (p *plan) countWrites() {
	m := p.memory
	for _, w := range p.writes {
		rec := m.records[w.at]
		key, size := entryKeySize(m.layout, w.at), &rec.size
		if w.what == whatMetadata {
			key, size = metadataKeySize(m.layout, w.id), &rec.metaSize
		}
		m.count(key, *size, len(w.value))
		*size = len(w.value)
	}
}

// countNames notes which names are stored.
func (p *plan) countNames() {
	for m := p.memory; m.stored < p.names; m.stored++ {
		m.count(len(appendNameKey(m.layout, p.key[:0], m.stored)), absent, len(m.names[m.stored]))
	}
}

// countFields notes what of the fields is stored.
func (p *plan) countFields() {
	m := p.memory
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

// entries returns the entries that were written, each once, sorted.
func (p *plan) entries() []Entry {
	es := make([]Entry, 0, len(p.writes))
	for _, w := range p.writes {
		es = append(es, p.memory.records[w.at].Entry)
	}
	slices.SortFunc(es, byLocation)
	return slices.CompactFunc(es, func(a, b Entry) bool { return a.Location == b.Location })
}
