package actorstore

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// noted is the actor whose notes a checker is walking.
type noted struct {
	id ID
	n  int // of its notes so far
}

// note checks a note, which comes behind those of the same actor. What it means is for
// others to check.
func (c *checker) note(id ID, key, value []byte) error {
	if id != c.notes.id || c.notes.n == 0 {
		c.notes = noted{id: id}
		_, head, err := c.get(layout.RecordKey(layout.ID(id), layout.PartHead))
		if err == nil && !head {
			err = c.find(id, "notes", "they are those of an actor without a head")
		}
		if err != nil {
			return err
		}
	}
	if c.notes.n++; c.notes.n == MaxNotes+1 {
		if err := c.find(id, "notes", "there are more than %d", MaxNotes); err != nil {
			return err
		}
	}
	if len(key) == 0 || len(key) > maxNoteKey || len(value) > MaxNoteValue {
		return c.find(id, "notes", "the key %x has %d bytes, limit %d, and the value %d, limit %d",
			key, len(key), maxNoteKey, len(value), MaxNoteValue)
	}
	return nil
}

// notesOf checks the notes of one actor.
func (c *checker) notesOf(id ID) error {
	start, end := layout.NotesRange(layout.ID(id))
	for e, err := range c.src.Scan(c.ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		if of, key, ok := layout.ParseNoteKey(e.Key); ok {
			err = c.note(ID(of), key, e.Value)
		} else {
			err = c.find(id, rowWords(e.Key), "it is no note")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// anyNote says whether the actor has notes.
func (c *checker) anyNote(id ID) (bool, error) {
	start, end := layout.NotesRange(layout.ID(id))
	for _, err := range c.src.Scan(c.ctx, kv.Range{Start: start, End: end, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}
