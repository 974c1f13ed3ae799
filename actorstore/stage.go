package actorstore

import (
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
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
		f.next.Used += quota.Delta(&f.Change, i)
		f.Write(f.Op(i), f.Before[i])
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
	f.Staged = append(f.Staged, kv.Set(a.headKey, f.row[:]))
	if a.layout != LayoutGreenroom && f.next.Seq == 1 {
		f.Staged = append(f.Staged, kv.Set(layout.RecordKey(layout.ID(a.id), layout.PartLayout), layout.AppendLayout(nil, uint8(a.layout))))
	}
	if a.unsaid && !a.hidden {
		f.checks, f.Staged = a.appendName(f.checks, f.Staged)
	}
	f.stageWake(from)
	f.stageAttributes(from)
	f.stageUsage(from)
	f.stageHints(to - from)
	f.stageNotes(to)
}

// unstage forgets an engine commit.
func (f *flight) unstage() {
	f.Reset(f.a.space.Prefix)
	clear(f.checks)
	f.checks = f.checks[:0]
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
	f.refind = false
	f.next = layout.Head{Epoch: 1, Last: a.commitID()}
	f.checkHead()
	// One tombstone for the whole subspace: an actor may have any number of rows. The
	// others are for the head and all that stands behind it, and for the notes.
	f.Staged = append(f.Staged,
		kv.ClearRange(tuple.Range(a.space.Prefix[:])),
		kv.ClearRange(layout.RecordRange(layout.ID(a.id))),
		kv.ClearRange(layout.NotesRange(layout.ID(a.id))))
	if w := a.wake.Load(); w != nil {
		f.Staged = append(f.Staged, kv.Clear(w.indexKey(a.id)))
	}
	for _, row := range indexRows(a.id, a.found.row.Load()) {
		f.Staged = append(f.Staged, kv.Clear(row.Key()))
	}
	if name := a.Name(); name != "" && !a.unsaid {
		f.Staged = append(f.Staged, kv.Clear(layout.NameKey(name)))
	}
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

// rowsAlone says whether a batch without writes changes what the store says of the actor all the same.
func (f *flight) rowsAlone() bool {
	a := f.a
	if len(a.notes) > 0 || besideOf(f.b).writes() {
		return true
	}
	return !a.hidden && (a.rewake != nil && a.exists || a.found.wanted != nil || a.spent.more != nil || a.forking)
}

// size is how many bytes of keys and values the staged engine commit has.
func (f *flight) size() (n int64) {
	for i := range f.Staged {
		n += int64(len(f.Staged[i].Key) + len(f.Staged[i].Value))
	}
	return n
}

// checkSize holds the staged engine commit against the limits of the engine.
func (f *flight) checkSize() error {
	l, bytes := f.a.store.engLimits, 0
	for i := range f.Staged {
		o := &f.Staged[i]
		bytes += len(o.Key) + len(o.Value)
		switch {
		case l.Key > 0 && len(o.Key) > l.Key:
			return engineLimit("bytes of a key in the engine", len(o.Key), l.Key)
		case l.Value > 0 && o.Kind == kv.OpSet && len(o.Value) > l.Value:
			return engineLimit("bytes of a value in the engine", len(o.Value), l.Value)
		}
	}
	switch {
	case l.Ops > 0 && len(f.Staged) > l.Ops:
		return engineLimit("operations of one engine commit", len(f.Staged), l.Ops)
	case l.Bytes > 0 && bytes > l.Bytes:
		return engineLimit("bytes of one engine commit", bytes, l.Bytes)
	}
	return nil
}

func engineLimit(what string, size, limit int) error {
	return &batch.LimitError{Err: batch.ErrTooLarge, What: what, Size: size, Limit: limit}
}

// stageWake stages what the batch changes of when the actor must be woken. Of an Ordered batch it lands with the first part:
// before what is to be done.
func (f *flight) stageWake(from int) {
	a := f.a
	if from > 0 {
		return // f.wake is what the first part has made of it
	}
	old := a.wake.Load()
	f.wake = old
	switch {
	case a.hidden:
		return
	case a.rewake != nil:
		f.wake = rowOf(a.rewake, a.store.millis())
	case f.b.WakeTime() != 0:
		if f.wake = old.by(f.b.WakeTime(), a.store.millis()); f.wake != old {
			f.wake.held = a.host != nil
		}
	}
	if f.wake != old || old != nil && a.unsaid { // or with the name, which the index has
		f.Staged = appendWake(f.Staged, a, old, f.wake)
	}
}

// stageAttributes stages what the batch changes of what the actor is found by. Of an Ordered batch it lands with the first part.
func (f *flight) stageAttributes(from int) {
	a := f.a
	f.refind = false
	if from > 0 {
		return
	}
	old := a.found.row.Load()
	f.found = old
	if a.hidden || a.found.wanted == nil {
		return
	}
	f.found = a.found.wanted.row()
	if f.found.IsZero() {
		f.found = nil
	}
	f.refind = true
	f.Staged = appendAttributes(f.Staged, a.id, old, f.found)
}

// stageUsage stages what the batch adds to the actor's usage. Of an Ordered batch it lands with the first part.
func (f *flight) stageUsage(from int) {
	a := f.a
	if from > 0 {
		return
	}
	f.usage = a.spent.usage.Load()
	if a.hidden || a.spent.more == nil {
		return
	}
	var all Usage
	if f.usage != nil {
		all = usageOf(a.id, *f.usage)
	}
	all.Add(a.spent.more)
	row := all.row()
	f.usage = &row
	f.Staged = append(f.Staged, kv.Set(layout.RecordKey(layout.ID(a.id), layout.PartUsage), row))
}

// stageHints stages the hints that wait for a commit, if this is one for them, with so
// many writes.
func (f *flight) stageHints(writes int) {
	a := f.a
	f.hints = a.pending.Load()
	if f.hints == nil || a.hidden || writes > hintsBeside {
		f.hints = nil
		return
	}
	if key := layout.RecordKey(layout.ID(a.id), layout.PartHints); len(*f.hints) > 0 {
		f.Staged = append(f.Staged, kv.Set(key, *f.hints))
	} else {
		f.Staged = append(f.Staged, kv.Clear(key))
	}
}

// hinted records that the hints have landed.
func (f *flight) hinted() {
	if f.hints != nil {
		f.a.stored.Store(f.hints)
		f.a.pending.CompareAndSwap(f.hints, nil) // unless there are newer ones
		f.hints = nil
	}
}

// stageNotes stages the notes, if the commit is the last of the flight.
func (f *flight) stageNotes(to int) {
	if to < f.Ops() {
		return
	}
	for _, n := range f.a.notes {
		f.Note(layout.ID(f.a.id), n.Key, n.Value)
	}
}
