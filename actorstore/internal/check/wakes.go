package check

import (
	"bytes"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// wakes checks that the times to wake actors and the index of them agree.
type wakes struct{ *walk }

// of checks the row that says when an actor must be woken, if any, against its row of the index.
func (w wakes) of(rec *record) {
	row := rec.parts[layout.PartWake]
	if row == nil {
		return
	}
	find := func(format string, args ...any) { w.find(rec.id, "time to be woken", format, args...) }
	if !rec.written() {
		find("it is that of an actor that doesn't exist")
		return
	}
	at, err := layout.ParseWake(rec.id, row)
	if err != nil {
		find("%s", clause(err))
		return
	}
	row, ok := w.get(layout.WakeKey(at.Look, rec.id))
	if !ok {
		find("the index of the store doesn't have it")
		return
	}
	in, err := layout.ParseWaking(rec.id, row)
	never := at.At == layout.NeverAt && len(at.Tried) == 0 // an actor that nothing wakes has no row
	switch {
	case err != nil && w.Only != nil:
		find("the row of the index: %s", clause(err))
	case err != nil: // the walk comes to that row
	case never || in.At != at.At || !slices.Equal(in.Tried, at.Tried):
		find("the index of the store says another one")
	case in.Name != string(rec.parts[layout.PartName]):
		find("the index has it for %q", in.Name)
	}
}

// row checks a row of the index: the actor must have it. What else is wrong between the two is told there.
func (w wakes) row(id layout.ID, e kv.Entry) {
	if _, err := layout.ParseWaking(id, e.Value); err != nil {
		w.find(id, rowWords(e.Key), "%s", clause(err))
		return
	}
	row, ok := w.get(layout.RecordKey(id, layout.PartWake))
	at, err := layout.ParseWake(id, row)
	if !ok || err == nil && !bytes.Equal(layout.WakeKey(at.Look, id), e.Key) { // one that can't be read is told with the actor
		w.find(id, rowWords(e.Key), "the index has a time to wake the actor that the actor doesn't")
	}
}
