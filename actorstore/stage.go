package actorstore

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// stage turns the writes [from, to) into one engine commit.
func (f *flight) stage(from, to int) {
	a := f.a
	f.unstage()
	f.next = a.head
	for i := from; i < to; i++ {
		f.next.Used += f.delta(i)
		f.stageOp(f.Op(i), f.Before[i])
	}
	// The head is written last and checked first: whatever else the commit does,
	// it does as the owner.
	if !a.hidden {
		if f.next.Seq++; f.next.Seq == 1 {
			f.next.Created = a.store.millis()
		}
	}
	f.Seq, f.Hidden = f.next.Seq, a.hidden
	f.next.Last = a.commitID()
	f.next.Append(f.row[:0])
	f.checkHead()
	f.opsBuf = append(f.opsBuf, kv.Set(a.headKey, f.row[:]))
	if a.layout != LayoutGreenroom && f.next.Seq == 1 {
		f.opsBuf = append(f.opsBuf, kv.Set(layout.RecordKey(layout.ID(a.id), layout.PartLayout), layout.AppendLayout(nil, uint8(a.layout))))
	}
	if a.unsaid && !a.hidden {
		f.checks, f.opsBuf = a.appendName(f.checks, f.opsBuf)
	}
	f.stageWake(from)
	f.stageHints(to - from)
	f.stageNotes(to)
}

// unstage forgets an engine commit, so that nothing of others is kept alive by it. What lies
// behind it is zero already: to clear that, too, would have a small commit pay for the
// largest one before it.
func (f *flight) unstage() {
	clear(f.opsBuf)
	clear(f.checks)
	f.keys, f.opsBuf, f.checks = f.keys[:0], f.opsBuf[:0], f.checks[:0]
}

// checkHead appends the check that makes this handle the owner. It copies the row,
// because the actor's own changes as soon as the commit is applied.
func (f *flight) checkHead() {
	f.was = f.a.row
	f.checks = append(f.checks, kv.Check{Key: f.a.headKey, Value: f.was[:], Absent: !f.a.exists})
}

// stageDrop stages what removes the actor.
func (f *flight) stageDrop() {
	a := f.a
	f.unstage()
	f.next = layout.Head{Epoch: 1, Last: a.commitID()}
	f.checkHead()
	// One tombstone for the whole subspace: an actor may have any number of rows. The
	// others are for the head and all that stands behind it, and for the notes.
	f.opsBuf = append(f.opsBuf,
		kv.ClearRange(tuple.Range(a.space.Prefix[:])),
		kv.ClearRange(layout.RecordRange(layout.ID(a.id))),
		kv.ClearRange(layout.NotesRange(layout.ID(a.id))))
	if w := a.wake.Load(); w != nil {
		f.opsBuf = append(f.opsBuf, kv.Clear(w.indexKey(a.id)))
	}
	if name := a.Name(); name != "" && !a.unsaid {
		f.opsBuf = append(f.opsBuf, kv.Clear(layout.NameKey(name)))
	}
}

// stageOp appends the engine's operations for one write; before is what it
// replaces.
func (f *flight) stageOp(o *batch.Op, before int64) {
	switch o.Kind {
	case batch.Put:
		f.stagePut(o, before)
	case batch.Delete:
		if before >= 0 { // else there is nothing to remove
			base := f.base(o.Key)
			f.clearRows(base, 0, layout.RowsOf(before))
			f.opsBuf = append(f.opsBuf, kv.Clear(f.metadataKey(base)))
		}
	case batch.DeleteRange:
		if before > 0 {
			f.opsBuf = append(f.opsBuf, kv.ClearRange(f.bounds(o)))
		}
	}
}

// stagePut sets the rows of a value, and clears those that only the old one had,
// one by one: the tombstone of a range costs every later read more than it saves.
func (f *flight) stagePut(o *batch.Op, before int64) {
	base := f.base(o.Key)
	rows := layout.RowsOf(int64(len(o.Value)))
	for i := range rows {
		piece := o.Value[i*layout.RowSize : min((i+1)*layout.RowSize, len(o.Value))]
		f.opsBuf = append(f.opsBuf, kv.Set(f.dataKey(base, i), piece))
	}
	f.clearRows(base, rows, layout.RowsOf(before))
	f.opsBuf = append(f.opsBuf, kv.Set(f.metadataKey(base), f.meta))
}

// clearRows clears the DATA rows [from, to).
func (f *flight) clearRows(base []byte, from, to int) {
	for i := from; i < to; i++ {
		f.opsBuf = append(f.opsBuf, kv.Clear(f.dataKey(base, i)))
	}
}

// base, dataKey, metadataKey and bounds build physical keys in the arena. A full
// arena is replaced by append, and keys built before keep the old one.
func (f *flight) base(key []byte) []byte {
	n := len(f.keys)
	f.keys = f.a.space.Prefix.AppendBase(f.keys, key)
	base := f.keys[n:len(f.keys):len(f.keys)]
	// The base by itself isn't a key: the next one that is built takes its place.
	// It is the same bytes there, so base stays right.
	f.keys = f.keys[:n]
	return base
}

func (f *flight) dataKey(base []byte, i int) []byte {
	n := len(f.keys)
	f.keys = layout.AppendData(append(f.keys, base...), i)
	return f.keys[n:len(f.keys):len(f.keys)]
}

func (f *flight) metadataKey(base []byte) []byte {
	n := len(f.keys)
	f.keys = layout.AppendMetadata(append(f.keys, base...))
	return f.keys[n:len(f.keys):len(f.keys)]
}

func (f *flight) bounds(o *batch.Op) (start, end []byte) {
	n := len(f.keys)
	f.keys = f.a.space.Prefix.AppendBound(f.keys, o.Key)
	m := len(f.keys)
	if o.Value == nil {
		f.keys = f.a.space.Prefix.AppendEnd(f.keys)
	} else {
		f.keys = f.a.space.Prefix.AppendBound(f.keys, o.Value)
	}
	return f.keys[n:m:m], f.keys[m:len(f.keys):len(f.keys)]
}

// fits stages the flight and holds it against the limits of the engine, all of it
// before the first write.
func (f *flight) fits() error {
	n, l := f.parts(), f.a.store.engLimits
	l.Far = false // which isn't a bound
	if n > 1 && l == (kv.Limits{}) {
		return nil // flown part by part, each staged just before
	}
	// Several parts are staged twice, here and when they fly: keeping all of them
	// would take memory without bound, which is what parts are there to avoid.
	for i := range n {
		f.stage(f.part(i))
		if err := f.checkSize(); err != nil {
			return err
		}
	}
	return nil
}

// checkSize holds the staged engine commit against the limits of the engine.
func (f *flight) checkSize() error {
	l, bytes := f.a.store.engLimits, 0
	for i := range f.opsBuf {
		o := &f.opsBuf[i]
		bytes += len(o.Key) + len(o.Value)
		switch {
		case l.Key > 0 && len(o.Key) > l.Key:
			return engineLimit("bytes of a key in the engine", len(o.Key), l.Key)
		case l.Value > 0 && o.Kind == kv.OpSet && len(o.Value) > l.Value:
			return engineLimit("bytes of a value in the engine", len(o.Value), l.Value)
		}
	}
	switch {
	case l.Ops > 0 && len(f.opsBuf) > l.Ops:
		return engineLimit("operations of one engine commit", len(f.opsBuf), l.Ops)
	case l.Bytes > 0 && bytes > l.Bytes:
		return engineLimit("bytes of one engine commit", bytes, l.Bytes)
	}
	return nil
}

func engineLimit(what string, size, limit int) error {
	return &batch.LimitError{Err: batch.ErrTooLarge, What: what, Size: size, Limit: limit}
}
