package actorstore

import (
	"bytes"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// RowOwner returns whose row of an engine the key of a row is: one of an actor's key, which it returns too, in memory of its own, or,
// with a nil key, one about the actor. It returns false for a row of the store itself, and for every other one. A key with bytes
// behind that of a row counts as that row's.
func RowOwner(row []byte) (id ID, key []byte, ok bool) {
	if id, ok := layout.ActorOf(row); ok {
		p := layout.NewPrefix(id)
		key, _, _ = p.ParseBase(nil, row) // nil where it is damaged
		return ID(id), key, true
	}
	for cut := range 2 { // a bound of a range is a row with a zero behind it
		row = row[:len(row)-min(cut, len(row))]
		if id, _, ok := layout.ParseRecordKey(row); ok {
			return ID(id), nil, true
		}
		if id, _, ok := layout.ParseNoteKey(row); ok {
			return ID(id), nil, true
		}
	}
	return ID{}, nil, false
}

// RowsOverlap reports whether rows of an actor, or about it, can lie in a range.
func RowsOverlap(id ID, r kv.Range) bool {
	p := layout.NewPrefix(layout.ID(id))
	in := func(start, end []byte) bool {
		return (r.End == nil || bytes.Compare(start, r.End) < 0) && bytes.Compare(r.Start, end) < 0
	}
	return in(p[:], layout.AppendAbove(bytes.Clone(p[:]))) || in(layout.RecordRange(layout.ID(id))) || in(layout.NotesRange(layout.ID(id)))
}
