package history

import (
	"fmt"
	"slices"
)

// A draft is what a transaction changes, in the order of its calls: what is put after a removal stays, what was put before
// doesn't. It belongs to the transaction alone. Its methods that take a memory are for the holder of its lock.
type draft struct {
	changes []change
	at      map[Location]int // where they are in changes, once they are many
	ids     map[string]int   // the same by id
	spans   []span           // that are removed, none of which touch
	fieldChanges

	// naming says that only names are written, as many as this.
	naming NameIndex
}

// A change is an entry that is put, or whose metadata are, or both.
type change struct {
	entry     Entry  // with an ID, and without a Kind if it isn't put
	value     []byte // encoded, nil: the entry isn't put
	metadata  *Metadata
	metaValue []byte // encoded, nil: the metadata aren't put
}

// stored reports whether the metadata of c are what is stored for rec, the same entry: as of a loop that goes on.
func (c *change) stored(rec *record) bool {
	return rec.ID == c.entry.ID && rec.metaValue == nil && rec.metaSize == len(c.metaValue) &&
		equalMetadata(rec.Metadata, c.metadata)
}

// apply puts c, which has landed, into memory, and returns the entry that was in its place, nil for none.
func (c *change) apply(m *memory) (gone *Entry) {
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

// unique returns an error if another entry has the ID of e. An entry doesn't move: one that
// d removes has it, too, unless that is everything.
func (d *draft) unique(m *memory, e *Entry) error {
	other, taken := m.ids[e.ID]
	if taken = taken && !slices.Contains(d.spans, everything); !taken {
		if i := d.findID(e.ID); i >= 0 {
			other, taken = d.changes[i].entry.Location, true
		}
	}
	if taken && other != e.Location {
		return fmt.Errorf("%w entry: %s has the id %q", errInvalid, appendPath(nil, other, m.names), e.ID)
	}
	return nil
}

// record returns what is at l in memory, nil if there is nothing or d removes it.
func (d *draft) record(m *memory, l Location) *record {
	if d.removes(l) {
		return nil
	}
	return m.records[l]
}

// removes reports whether d removes what is at l in memory.
func (d *draft) removes(l Location) bool {
	return slices.ContainsFunc(d.spans, func(s span) bool { return s.holds(l) })
}

// removing reports whether d removes something.
func (d *draft) removing(m *memory) bool {
	return len(d.spans) > 0 || slices.ContainsFunc(d.changes, func(c change) bool {
		rec := m.records[c.entry.Location]
		return rec != nil && rec.ID != c.entry.ID
	})
}

// few is how many changes are looked through without a map.
const few = 8

// find returns the change at l, nil for none. It is good until the next one is added.
func (d *draft) find(l Location) *change {
	if len(d.changes) > few {
		if i, ok := d.at[l]; ok {
			return &d.changes[i]
		}
		return nil
	}
	for i := range d.changes {
		if d.changes[i].entry.Location == l {
			return &d.changes[i]
		}
	}
	return nil
}

// findID returns which change is of the entry id, −1 if none is.
func (d *draft) findID(id string) int {
	if len(d.changes) > few {
		if i, ok := d.ids[id]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(d.changes, func(c change) bool { return c.entry.ID == id })
}

// change returns the change at l of the entry id, a new one if it has none, or only one
// of another entry.
func (d *draft) change(l Location, id string) *change {
	c := d.find(l)
	if c == nil {
		d.changes = append(d.changes, change{entry: Entry{ID: id, Location: l}})
		c = &d.changes[len(d.changes)-1]
		switch n := len(d.changes); {
		case n == few+1:
			d.reindex()
		case n > few:
			d.at[l], d.ids[id] = n-1, n-1
		}
	} else if c.entry.ID != id {
		*c = change{entry: Entry{ID: id, Location: l}}
		if len(d.changes) > few {
			d.reindex()
		}
	}
	return c
}

// reindex makes the maps of the changes anew.
func (d *draft) reindex() {
	d.at, d.ids = make(map[Location]int, 2*few), make(map[string]int, 2*few)
	for i := range d.changes {
		d.at[d.changes[i].entry.Location] = i
		d.ids[d.changes[i].entry.ID] = i
	}
}

// remove adds a span, and forgets what is put in it.
func (d *draft) remove(s span) {
	d.changes = slices.DeleteFunc(d.changes, func(c change) bool { return s.holds(c.entry.Location) })
	if len(d.changes) > few {
		d.reindex()
	}
	// What touches becomes one: the store is told what a range holds, and counts it once.
	d.spans = slices.DeleteFunc(d.spans, func(o span) bool {
		if o.end < s.start || s.end < o.start {
			return false
		}
		s = span{min(s.start, o.start), max(s.end, o.end)}
		return true
	})
	d.spans = append(d.spans, s)
}

// split moves the first n changes to another draft, which is empty.
func (d *draft) split(n int, first *draft) {
	first.changes = append(first.changes, d.changes[:n]...)
	d.changes = d.changes[n:]
	for _, part := range []*draft{first, d} {
		if len(part.changes) > few {
			part.reindex()
		}
	}
}
