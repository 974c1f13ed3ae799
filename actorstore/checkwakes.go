package actorstore

import (
	"bytes"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// wake checks the row that says when an actor must be woken against its row of the index.
func (c *checker) wake(at *trace) error {
	if at.wake == nil {
		return nil
	}
	const where = "time to be woken"
	if !at.written() {
		return c.find(at.id, where, "it is that of an actor that doesn't exist")
	}
	row, err := parseWake(at.id, at.wake)
	if err != nil {
		return c.find(at.id, where, "%s", clause(err))
	}
	value, ok, err := c.get(row.indexKey(at.id))
	switch {
	case err != nil:
		return err
	case !ok:
		return c.find(at.id, where, "the index of the store doesn't have it")
	}
	w, err := parseWaking(kv.Entry{Key: row.indexKey(at.id), Value: value})
	switch {
	case err != nil && c.single: // else the walk comes to that row
		return c.find(at.id, where, "the row of the index: %s", clause(err))
	case err != nil:
		return nil
	case !row.says(&w.Wake):
		return c.find(at.id, where, "the index of the store says another one")
	case w.Name != string(at.name):
		return c.find(at.id, where, "the index has it for %q", w.Name)
	}
	return nil
}

// waking checks a row of the index: the actor must have it. What else is wrong between the two is told there.
func (c *checker) waking(e kv.Entry) error {
	w, err := parseWaking(e)
	if err != nil {
		return c.find(w.ID, rowWords(e.Key), "%s", clause(err))
	}
	look, _, err := layout.ParseWakeKey(e.Key)
	if err != nil {
		return err
	}
	value, ok, err := c.get(layout.RecordKey(layout.ID(w.ID), layout.PartWake))
	if err != nil {
		return err
	}
	if ok {
		row, err := parseWake(w.ID, value)
		ok = err != nil || row.Look == look && bytes.Equal(row.indexKey(w.ID), e.Key) // one that can't be read is told with the actor
	}
	if !ok {
		return c.find(w.ID, rowWords(e.Key), "the index has a time to wake the actor that the actor doesn't")
	}
	return nil
}
