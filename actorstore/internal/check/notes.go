package check

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// notes checks notes, in ascending order. What they mean is for others to check.
type notes struct {
	*walk
	id layout.ID // whose notes are being walked
	n  int       // of its notes so far
}

// row checks a note, which comes behind those of the same actor.
func (n *notes) row(id layout.ID, key, value []byte) {
	if id != n.id || n.n == 0 {
		n.id, n.n = id, 0
		if _, head := n.get(layout.RecordKey(id, layout.PartHead)); !head {
			n.find(id, "notes", "they are those of an actor without a head")
		}
	}
	if n.n++; n.n == n.MaxNotes+1 {
		n.find(id, "notes", "there are more than %d", n.MaxNotes)
	}
	if len(key) == 0 || len(key) > n.MaxNoteKey || len(value) > n.MaxNoteValue {
		n.find(id, "notes", "the key %x has %d bytes, limit %d, and the value %d, limit %d",
			key, len(key), n.MaxNoteKey, len(value), n.MaxNoteValue)
	}
}

// of checks the notes of one actor.
func (n *notes) of(id layout.ID) {
	start, end := layout.NotesRange(id)
	n.scan(kv.Range{Start: start, End: end}, func(e kv.Entry) {
		if of, key, ok := layout.ParseNoteKey(e.Key); ok {
			n.row(of, key, e.Value)
		} else {
			n.find(id, rowWords(e.Key), "it is no note")
		}
	})
}

// any says whether the actor has notes.
func (n *notes) any(id layout.ID) (has bool) {
	start, end := layout.NotesRange(id)
	n.scan(kv.Range{Start: start, End: end, Limit: 1}, func(kv.Entry) { has = true })
	return has
}
