package check

import (
	"slices"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// index checks that what actors are found by, and the index of that, agree.
type index struct{ *walk }

// of checks the row that says what an actor is found by, if any, against its rows of the index.
func (x index) of(rec *record) {
	row := rec.parts[layout.PartIndex]
	if row == nil {
		return
	}
	find := func(format string, args ...any) { x.find(rec.id, "attributes", format, args...) }
	if !rec.written() {
		find("they are those of an actor that doesn't exist")
		return
	}
	at, err := layout.ParseAttributes(rec.id, row)
	if err != nil {
		find("%s", clause(err))
		return
	}
	if at.IsZero() {
		find("the row says nothing")
	}
	for _, row := range at.Rows(rec.id) {
		if _, ok := x.get(row.Key()); !ok {
			find("the index of the store doesn't have %s", row)
		}
	}
}

// row checks a row of the index: its actor must have that value.
func (x index) row(row layout.IndexRow, e kv.Entry) {
	if len(e.Value) > 0 {
		x.find(row.ID, rowWords(e.Key), "a row of the index has a value of %d bytes", len(e.Value))
	}
	found, ok := x.get(layout.RecordKey(row.ID, layout.PartIndex))
	at, err := layout.ParseAttributes(row.ID, found)
	if !ok || err == nil && !slices.Contains(at.Rows(row.ID), row) { // one that can't be read is told with the actor
		x.find(row.ID, "attributes", "the index of the store has %s, which the actor doesn't", row)
	}
}
