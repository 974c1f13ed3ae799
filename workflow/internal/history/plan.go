package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A plan is what one commit writes: a transaction, and what was deferred.
type plan struct {
	layout   actorstore.Layout // of the keys
	writes   []write
	deferred batch.Captured[deferred]
	names    NameIndex // those below it are stored then
	text     []byte    // of the state, if that is written; nil: removed
	fields   [fields]bool
	key      []byte       // memory for keys
	orphans  []lostOrphan // that are removed
}

// A write is a value of the history, under a key of its own.
type write struct {
	what   what // an entry or metadata
	at     Location
	id     string
	value  []byte
	before int // size of the value that is stored
	// deferred says that the value isn't the transaction's.
	deferred bool
}

// A staged is a Tx in the batch in which it is staged, whose batch.Participant it is.
type staged Tx

var _ batch.Participant = (*staged)(nil)

// Landed does nothing: see flight.
func (*staged) Landed() {}

// Failed does nothing: see flight.
func (*staged) Failed(error, bool) {}

// Late stages everything. The batch calls it again when it is sealed again after a refusal.
func (s *staged) Late(b *batch.Batch) error {
	tx := (*Tx)(s)
	h := tx.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := tx.ready(b); err != nil {
		return err
	}
	p := &tx.plan
	tx.keepOrphans() // if this is not the first time
	*p = plan{layout: h.m.layout, writes: p.writes[:0], key: p.key[:0], names: h.m.stored}
	if h.dirty.Len() > 0 && tx.naming == 0 {
		p.deferred = h.dirty.Capture()
	}
	tx.collect()
	tx.stageDeletions(b, true)
	tx.stageNames(b)
	p.stageWrites(b)
	tx.stageFields(b)
	tx.stageDeletions(b, false)
	tx.stageOrphans(b)
	p.stageFound(tx, b)
	state, input := h.m.state, h.m.values[fieldInput]
	if tx.set[fieldState] {
		state = tx.to
	}
	if tx.set[fieldInput] {
		input = tx.values[fieldInput]
	}
	if input != nil && !state.over() {
		b.WakeBy(time.Time{})
	}
	// The flight comes first, so that memory follows the commit before Reload or Close goes on.
	b.Enlist(h, (*flight)(tx))
	if _, open := tx.entry.Enter(b, &h.gate); !open {
		return ErrClosed
	}
	h.begun++
	return nil
}

// ready says why tx can't be staged.
//
// +checklocks:tx.h.mu
func (tx *Tx) ready(b *batch.Batch) error {
	h := tx.h
	if err := h.usable(); err != nil {
		return err
	}
	switch {
	case tx.used:
		return errUsed
	case b.Mode != batch.Atomic:
		return errOrdered
	case b.Enlisted(h) != nil:
		return errTwo
	}
	if err := tx.allowed(); err != nil {
		return err
	}
	for i := range tx.changes {
		c := &tx.changes[i]
		if rec := tx.record(c.entry.Location); c.value == nil && (rec == nil || rec.ID != c.entry.ID) {
			return fmt.Errorf("%w metadata: the entry %s is gone", errInvalid, appendPath(nil, c.entry.Location, h.m.names))
		}
	}
	return nil
}

var errTwo = fmt.Errorf("%w batch: it has another transaction of this history", errInvalid)

var errOrdered = fmt.Errorf("%w batch: a history lands whole, and the batch is %v", errInvalid, batch.Ordered)

// collect puts the entries and then the metadata that are written into the plan, each
// sorted by location.
//
// +checklocksread:tx.h.mu
func (tx *Tx) collect() {
	p, m := &tx.plan, &tx.h.m
	for _, d := range p.deferred.Keys() {
		rec := m.records[d.at]
		if d.what == whatField || rec == nil || tx.removes(d.at) {
			continue
		}
		c := tx.find(d.at)
		switch {
		case d.what == whatEntry && rec.value != nil && (c == nil || c.value == nil):
			p.add(write{whatEntry, d.at, rec.ID, rec.value, rec.size, true})
		case d.what == whatMetadata && rec.metaValue != nil && (c == nil || c.metaValue == nil && c.entry.ID == rec.ID):
			p.add(write{whatMetadata, d.at, rec.ID, rec.metaValue, rec.metaSize, true})
		}
	}
	for i := range tx.changes {
		c := &tx.changes[i]
		rec := m.records[c.entry.Location]
		if c.value != nil {
			before := absent
			if rec != nil {
				before = rec.size
			}
			p.add(write{whatEntry, c.entry.Location, c.entry.ID, c.value, before, false})
		}
		if c.metaValue != nil && (rec == nil || tx.removes(rec.Location) || !rec.stores(c)) {
			p.add(write{whatMetadata, c.entry.Location, c.entry.ID, c.metaValue, m.metaSize(rec, c.entry.ID), false})
		}
	}
	slices.SortFunc(p.writes, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.at, b.at))
	})
}

// metaSize returns the size of the metadata that are stored for an id, which is mostly that
// of rec.
func (m *memory) metaSize(rec *record, id string) int {
	if rec != nil && rec.ID == id {
		return rec.metaSize
	}
	if l, ok := m.ids[id]; ok {
		return m.records[l].metaSize
	}
	if o, ok := m.orphans[id]; ok {
		return o.size
	}
	return absent
}

func (p *plan) add(w write) { p.writes = append(p.writes, w) }

// stageNames stages the names that aren't stored, if entries are that may need them.
// Those of other transactions may be among them, which makes no difference.
//
// +checklocksread:tx.h.mu
func (tx *Tx) stageNames(b *batch.Batch) {
	p, m := &tx.plan, &tx.h.m
	end := NameIndex(len(m.names))
	switch {
	case tx.naming > 0:
		end = min(end, p.names+tx.naming)
	case len(p.writes) == 0 || p.writes[0].what != whatEntry:
		return
	}
	if tx.naming == 0 && end-p.names > fewNames {
		end = p.needed() // the others' may be too many for a commit
	}
	for ; p.names < end; p.names++ {
		p.key = appendNameKey(p.layout, p.key[:0], p.names)
		b.PutPrior(p.key, []byte(m.names[p.names]), batch.Absent)
	}
}

// fewNames is how many names are written without looking whether they are needed.
const fewNames = 16

// needed returns the number of names that the entries in p need, counting from the first.
func (p *plan) needed() NameIndex {
	n := p.names
	for _, w := range p.writes {
		if w.what == whatEntry {
			for s := range w.at.segments() {
				n = max(n, s.Name+1)
			}
		}
	}
	return n
}

func (p *plan) stageWrites(b *batch.Batch) {
	for _, w := range p.writes {
		if w.what == whatEntry {
			p.key = appendEntryKey(p.layout, p.key[:0], w.at)
		} else {
			p.key = appendMetadataKey(p.layout, p.key[:0], w.id)
		}
		b.PutPrior(p.key, w.value, prior(w.before))
	}
}

// stageFields stages the fields that change.
//
// +checklocksread:tx.h.mu
func (tx *Tx) stageFields(b *batch.Batch) {
	p, m := &tx.plan, &tx.h.m
	for f := range fields {
		later := slices.Contains(p.deferred.Keys(), deferred{what: whatField, field: f})
		if !tx.sets(f) && !later {
			continue
		}
		value, same := m.values[f], false
		if f == fieldState {
			value = tx.stateText()
			same = string(value) == string(m.values[f]) && (value == nil) == (m.values[f] == nil)
		} else if tx.sets(f) {
			same = !later && string(tx.values[f]) == string(value) && (tx.values[f] == nil) == (value == nil)
			value = tx.values[f]
		}
		if same || value == nil && m.sizes[f] == absent {
			continue
		}
		p.fields[f] = true
		p.key = appendFieldKey(p.layout, p.key[:0], f)
		if f == fieldState {
			p.text = value
		}
		if value == nil {
			b.DeletePrior(p.key, prior(m.sizes[f]))
		} else {
			b.PutPrior(p.key, value, prior(m.sizes[f]))
		}
	}
}

// stageFound stages what the actor is found by: the state of the workflow as it will be stored.
//
// +checklocksread:tx.h.mu
func (p *plan) stageFound(tx *Tx, b *batch.Batch) {
	m := &tx.h.m
	stored := func(f field) []byte {
		if p.fields[f] && tx.sets(f) {
			return tx.values[f]
		}
		return m.values[f]
	}
	text, input := string(m.values[fieldState]), stored(fieldInput)
	if p.fields[fieldState] {
		text = string(p.text)
	}
	state, stuck := found(text, input, stored(fieldWaits))
	tx.h.actor.StageWorkflow(b, state, stuck)
}

// found returns by which state of its workflow an actor is found, "" for none, and whether it is stuck: see Snapshot.Stuck.
func found(text string, input, waits []byte) (state string, stuck bool) {
	s, err := parseState(cmp.Or(text, Pending.String()))
	switch {
	case err != nil, s == Pending && input == nil:
		return "", false
	case s != Sleeping:
		return s.String(), false
	}
	return s.String(), (&Snapshot{State: s, Input: input, Rested: rested(waits)}).Stuck()
}

// stateText returns the text of the state that is to be stored, nil for none.
//
// +checklocksread:tx.h.mu
func (tx *Tx) stateText() []byte {
	to := tx.h.m.state
	if tx.set[fieldState] {
		to = tx.to
	}
	if to == Pending {
		return nil
	}
	return []byte(to.String())
}

// stageDeletions stages what is removed. What is put where something is removed must come
// after it, so such deletions are staged early; all others after everything else.
//
// +checklocksread:tx.h.mu
func (tx *Tx) stageDeletions(b *batch.Batch, early bool) {
	p, m := &tx.plan, &tx.h.m
	for _, s := range tx.spans {
		puts := slices.ContainsFunc(tx.changes, func(c change) bool { return s.holds(c.entry.Location) })
		if puts != early {
			continue
		}
		if s == everything {
			p.stageRange(b, p.layout.AppendWorkflowPart(nil, actorstore.WorkflowHistory),
				p.layout.AppendWorkflowPart(nil, actorstore.WorkflowHistory+1), m.freed(s))
			p.stageRange(b, p.layout.AppendWorkflowPart(nil, actorstore.WorkflowEntries),
				p.layout.AppendWorkflowPart(nil, actorstore.WorkflowEntries+1), m.freedMetadata())
			continue
		}
		p.stageRange(b, appendEntryKey(p.layout, nil, s.start), appendEntryKey(p.layout, nil, s.end), m.freed(s))
		from, to := m.span(s)
		for _, l := range m.order[from:to] {
			p.deleteMetadata(b, m.records[l])
		}
	}
	if !early {
		tx.stageReplaced(b)
	}
}

// stageReplaced removes the metadata of entries in whose place others come.
//
// +checklocksread:tx.h.mu
func (tx *Tx) stageReplaced(b *batch.Batch) {
	for i := range tx.changes {
		e := &tx.changes[i].entry
		if rec := tx.record(e.Location); rec != nil && rec.ID != e.ID {
			tx.plan.deleteMetadata(b, rec)
		}
	}
}

func (p *plan) stageRange(b *batch.Batch, start, end []byte, freed int64) {
	if freed > 0 {
		b.DeleteRangePrior(start, end, batch.Freed(freed))
	}
}

func (p *plan) deleteMetadata(b *batch.Batch, rec *record) {
	if rec.metaSize != absent {
		p.key = appendMetadataKey(p.layout, p.key[:0], rec.ID)
		b.DeletePrior(p.key, prior(rec.metaSize))
	}
}

// freed returns the bytes that are stored for the entries in a span.
func (m *memory) freed(s span) (n int64) {
	from, to := m.span(s)
	for _, l := range m.order[from:to] {
		if size := m.records[l].size; size != absent {
			n += int64(entryKeySize(m.layout, l) + batch.WrapperBytes + size)
		}
	}
	return n
}

// freedMetadata returns the bytes that are stored for all metadata.
func (m *memory) freedMetadata() (n int64) {
	for _, rec := range m.records {
		if rec.metaSize != absent {
			n += int64(metadataKeySize(m.layout, rec.ID) + batch.WrapperBytes + rec.metaSize)
		}
	}
	for id, o := range m.orphans {
		n += int64(metadataKeySize(m.layout, id) + batch.WrapperBytes + o.size)
	}
	return n
}
