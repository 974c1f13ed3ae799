package actorstore

import (
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
)

// noted is the actor whose notes a checker is walking.
type noted struct {
	id ID
	n  int // of its notes so far
}

// note checks a note, which comes behind those of the same actor. What it means is for
// others to check.
func (c *checker) note(k noteRow, value []byte) error {
	if k.ID != c.notes.id || c.notes.n == 0 {
		c.notes = noted{id: k.ID}
		_, head, err := c.get(headKey(k.ID))
		if err == nil && !head {
			err = c.find(k.ID, "notes", "they are those of an actor without a head")
		}
		if err != nil {
			return err
		}
	}
	if c.notes.n++; c.notes.n == MaxNotes+1 {
		if err := c.find(k.ID, "notes", "there are more than %d", MaxNotes); err != nil {
			return err
		}
	}
	if len(k.Key) == 0 || len(k.Key) > maxNoteKey || len(value) > MaxNoteValue {
		return c.find(k.ID, "notes", "the key %x has %d bytes, limit %d, and the value %d, limit %d",
			k.Key, len(k.Key), maxNoteKey, len(value), MaxNoteValue)
	}
	return nil
}

// notesOf checks the notes of one actor.
func (c *checker) notesOf(id ID) error {
	start, end := noteRange(id)
	for e, err := range c.src.Scan(c.ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		k, parseErr := keys.Parse[noteRow](e.Key)
		if parseErr != nil {
			err = c.find(id, rowWords(e.Key), "it is no note")
		} else {
			err = c.note(k, e.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// anyNote says whether the actor has notes.
func (c *checker) anyNote(id ID) (bool, error) {
	start, end := noteRange(id)
	for _, err := range c.src.Scan(c.ctx, kv.Range{Start: start, End: end, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}
