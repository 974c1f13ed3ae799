package rows

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A Writer turns writes of logical keys into the operations of an engine commit. It uses its memory
// again for the next one, and is for one goroutine at a time.
type Writer struct {
	Staged []kv.Op // what was staged, and whatever its user appends

	prefix layout.Prefix
	meta   []byte // the value of every METADATA row
	keys   []byte // arena of physical keys
}

// Stamp sets the time of all that is written from now on, in Unix milliseconds.
func (w *Writer) Stamp(millis int64) {
	w.meta = layout.AppendMetadataValue(w.meta[:0], layout.MetadataVersion, millis)
}

// Reset forgets an engine commit, so that nothing of others is kept alive by it. What lies
// behind it is zero already: to clear that, too, would have a small commit pay for the
// largest one before it. What is written next is of the actor with that prefix.
func (w *Writer) Reset(prefix layout.Prefix) {
	clear(w.Staged)
	w.keys, w.Staged, w.prefix = w.keys[:0], w.Staged[:0], prefix
}

// Arena returns how many bytes of keys the Writer has room for.
func (w *Writer) Arena() int { return cap(w.keys) }

// Note stages a note of an actor; a nil value removes it.
func (w *Writer) Note(id layout.ID, key, value []byte) {
	from := len(w.keys)
	w.keys = layout.AppendNoteKey(w.keys, id, key)
	if k := w.keys[from:len(w.keys):len(w.keys)]; value == nil {
		w.Staged = append(w.Staged, kv.Clear(k))
	} else {
		w.Staged = append(w.Staged, kv.Set(k, value))
	}
}

// Write stages one write; before is what it replaces, as Change.Before of package reads says.
func (w *Writer) Write(o *batch.Op, before int64) {
	switch o.Kind {
	case batch.Put:
		w.put(o, before)
	case batch.Delete:
		if before >= 0 { // else there is nothing to remove
			base := w.base(o.Key)
			w.clearRows(base, 0, layout.RowsOf(before))
			w.Staged = append(w.Staged, kv.Clear(w.metadataKey(base)))
		}
	case batch.DeleteRange:
		if before > 0 {
			w.Staged = append(w.Staged, kv.ClearRange(w.bounds(o)))
		}
	}
}

// put sets the rows of a value, and clears those that only the old one had,
// one by one: the tombstone of a range costs every later read more than it saves.
func (w *Writer) put(o *batch.Op, before int64) {
	base := w.base(o.Key)
	rows := layout.RowsOf(int64(len(o.Value)))
	for i := range rows {
		piece := o.Value[i*layout.RowSize : min((i+1)*layout.RowSize, len(o.Value))]
		w.Staged = append(w.Staged, kv.Set(w.dataKey(base, i), piece))
	}
	w.clearRows(base, rows, layout.RowsOf(before))
	w.Staged = append(w.Staged, kv.Set(w.metadataKey(base), w.meta))
}

// clearRows clears the DATA rows [from, to).
func (w *Writer) clearRows(base []byte, from, to int) {
	for i := from; i < to; i++ {
		w.Staged = append(w.Staged, kv.Clear(w.dataKey(base, i)))
	}
}

// base, dataKey, metadataKey and bounds build physical keys in the arena. A full
// arena is replaced by append, and keys built before keep the old one.
func (w *Writer) base(key []byte) []byte {
	n := len(w.keys)
	w.keys = w.prefix.AppendBase(w.keys, key)
	base := w.keys[n:len(w.keys):len(w.keys)]
	// The base by itself isn't a key: the next one that is built takes its place.
	// It is the same bytes there, so base stays right.
	w.keys = w.keys[:n]
	return base
}

func (w *Writer) dataKey(base []byte, i int) []byte {
	n := len(w.keys)
	w.keys = layout.AppendData(append(w.keys, base...), i)
	return w.keys[n:len(w.keys):len(w.keys)]
}

func (w *Writer) metadataKey(base []byte) []byte {
	n := len(w.keys)
	w.keys = layout.AppendMetadata(append(w.keys, base...))
	return w.keys[n:len(w.keys):len(w.keys)]
}

func (w *Writer) bounds(o *batch.Op) (start, end []byte) {
	n := len(w.keys)
	w.keys = w.prefix.AppendBound(w.keys, o.Key)
	m := len(w.keys)
	if o.Value == nil {
		w.keys = w.prefix.AppendEnd(w.keys)
	} else {
		w.keys = w.prefix.AppendBound(w.keys, o.Value)
	}
	return w.keys[n:m:m], w.keys[m:len(w.keys):len(w.keys)]
}
