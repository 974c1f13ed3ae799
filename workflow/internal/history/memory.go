package history

import (
	"cmp"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A record is an entry, and what is stored of it.
type record struct {
	Entry
	size, metaSize int // of the stored values in bytes, absent if there are none
	// What was deferred, encoded: nil for nothing.
	value, metaValue []byte
}

// absent is the size of a value that isn't stored.
const absent = -1

// prior says what is stored, by the size of the value.
func prior(size int) batch.Prior {
	if size == absent {
		return batch.Absent
	}
	return batch.Stored(size)
}

// A memory is a history as it is in memory, for the holder of the lock of contents.
type memory struct {
	layout actorstore.Layout // of the keys
	registry
	fieldSet

	records map[Location]*record
	order   []Location // of records, sorted
	ids     map[string]Location
	orphans orphans

	bytes int64 // stored, as a quota counts them
}

func newMemory(l actorstore.Layout) memory {
	m := memory{layout: l, registry: registry{index: map[string]NameIndex{}}, records: map[Location]*record{},
		ids: map[string]Location{}, orphans: orphans{byID: map[string]orphan{}}}
	for f := range m.sizes {
		m.sizes[f] = absent
	}
	return m
}

// count changes the bytes by what a value of another size makes, under a key of that
// length.
func (m *memory) count(key, before, after int) {
	if before != absent {
		m.bytes -= int64(key + batch.WrapperBytes + before)
	}
	if after != absent {
		m.bytes += int64(key + batch.WrapperBytes + after)
	}
}

// span returns which places of m.order are in [start, end).
func (m *memory) span(s span) (from, to int) {
	from, _ = slices.BinarySearch(m.order, s.start)
	to, _ = slices.BinarySearch(m.order, s.end)
	return from, max(from, to)
}

// put makes e the entry at its location. Metadata that are stored for its id become its
// own, and those of another entry in its place are given back as one that is gone.
func (m *memory) put(e Entry) (rec *record, gone *Entry) {
	rec = m.records[e.Location]
	if rec != nil && rec.ID == e.ID {
		rec.Kind = e.Kind
		return rec, nil
	}
	if rec == nil {
		rec = &record{size: absent}
		m.records[e.Location] = rec
		i, _ := slices.BinarySearch(m.order, e.Location)
		m.order = slices.Insert(m.order, i, e.Location)
	} else {
		gone = new(rec.Entry)
		m.dropMetadata(rec)
		delete(m.ids, rec.ID)
	}
	rec.Entry, rec.metaSize = Entry{ID: e.ID, Location: e.Location, Kind: e.Kind}, absent
	if o, ok := m.orphans.take(e.ID); ok {
		rec.Metadata, rec.metaSize = o.Metadata, o.size
	}
	m.ids[e.ID] = e.Location
	return rec, gone
}

// dropMetadata takes the metadata of a record off the count.
func (m *memory) dropMetadata(rec *record) {
	m.count(metadataKeySize(m.layout, rec.ID), rec.metaSize, absent)
	rec.Metadata, rec.metaValue, rec.metaSize = nil, nil, absent
}

// remove removes the entries in a span, and returns them.
func (m *memory) remove(s span) []*record {
	from, to := m.span(s)
	if from == to {
		return nil
	}
	gone := make([]*record, 0, to-from)
	for _, l := range m.order[from:to] {
		rec := m.records[l]
		e := rec.Entry
		m.count(entryKeySize(m.layout, l), rec.size, absent)
		m.dropMetadata(rec)
		delete(m.ids, rec.ID)
		delete(m.records, l)
		rec.Entry = e
		gone = append(gone, rec)
	}
	m.order = slices.Delete(m.order, from, to)
	return gone
}

// entries returns the entries in a span, sorted.
func (m *memory) entries(s span) []Entry {
	from, to := m.span(s)
	es := make([]Entry, 0, to-from)
	for _, l := range m.order[from:to] {
		es = append(es, m.records[l].Entry)
	}
	return es
}

// metaSize returns the size of the metadata that are stored for an id, which is mostly that
// of rec.
func (m *memory) metaSize(rec *record, id string) int {
	if rec != nil && rec.ID == id {
		return rec.metaSize
	}
	if l, ok := m.ids[id]; ok {
		return m.records[l].metaSize
	}
	if o, ok := m.orphans.byID[id]; ok {
		return o.size
	}
	return absent
}

// freed returns the bytes that are stored for the entries in a span.
func (m *memory) freed(s span) (n int64) {
	from, to := m.span(s)
	for _, l := range m.order[from:to] {
		if size := m.records[l].size; size != absent {
			n += int64(entryKeySize(m.layout, l) + batch.WrapperBytes + size)
		}
	}
	return n
}

// freedMetadata returns the bytes that are stored for all metadata.
func (m *memory) freedMetadata() (n int64) {
	for _, rec := range m.records {
		if rec.metaSize != absent {
			n += int64(metadataKeySize(m.layout, rec.ID) + batch.WrapperBytes + rec.metaSize)
		}
	}
	for id, o := range m.orphans.byID {
		n += int64(metadataKeySize(m.layout, id) + batch.WrapperBytes + o.size)
	}
	return n
}

// A span is the locations in [start, end).
type span struct{ start, end Location }

// in returns the span of a scope and all in it. No segment begins with ff.
func in(scope Location) span { return span{scope, scope + "\xff"} }

var everything = in("")

func (s span) holds(l Location) bool { return s.start <= l && l < s.end }

func byLocation(a, b Entry) int { return cmp.Compare(a.Location, b.Location) }
