package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A plan is what one commit writes: a transaction's draft, and what was deferred. It belongs to the transaction. It is made and
// followed (follow.go) under the lock of contents.
type plan struct {
	memory *memory
	draft  *draft
	batch  *batch.Batch

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
}

// begin makes p a plan without a write.
func (p *plan) begin(m *memory, d *draft, b *batch.Batch, later batch.Captured[deferred]) {
	p.giveUp() // if this is not the first time
	*p = plan{memory: m, draft: d, batch: b, deferred: later, writes: p.writes[:0], key: p.key[:0], names: m.stored}
}

// giveUp takes back what of a plan isn't the transaction's own.
func (p *plan) giveUp() {
	if len(p.orphans) > 0 {
		p.memory.keep(p.orphans)
		p.orphans = nil
	}
}

// stage decides what is written, and stages it.
func (p *plan) stage() {
	p.collect()
	p.stageDeletions(true)
	p.stageNames()
	p.stageWrites()
	p.stageFields()
	p.stageDeletions(false)
	p.stageOrphans()
	input := p.memory.values[fieldInput]
	if p.draft.set[fieldInput] {
		input = p.draft.values[fieldInput]
	}
	if input != nil && !p.draft.state(p.memory.state).over() {
		p.batch.WakeBy(time.Time{})
	}
}

// collect puts the entries and then the metadata that are written into the plan, each
// sorted by location.
func (p *plan) collect() {
	d, m := p.draft, p.memory
	for _, later := range p.deferred.Keys() {
		rec := m.records[later.at]
		if later.what == whatField || rec == nil || d.removes(later.at) {
			continue
		}
		c := d.find(later.at)
		switch {
		case later.what == whatEntry && rec.value != nil && (c == nil || c.value == nil):
			p.add(write{whatEntry, later.at, rec.ID, rec.value, rec.size})
		case later.what == whatMetadata && rec.metaValue != nil && (c == nil || c.metaValue == nil && c.entry.ID == rec.ID):
			p.add(write{whatMetadata, later.at, rec.ID, rec.metaValue, rec.metaSize})
		}
	}
	for i := range d.changes {
		c := &d.changes[i]
		rec := m.records[c.entry.Location]
		if c.value != nil {
			before := absent
			if rec != nil {
				before = rec.size
			}
			p.add(write{whatEntry, c.entry.Location, c.entry.ID, c.value, before})
		}
		if c.metaValue != nil && (rec == nil || d.removes(rec.Location) || !c.stored(rec)) {
			p.add(write{whatMetadata, c.entry.Location, c.entry.ID, c.metaValue, m.metaSize(rec, c.entry.ID)})
		}
	}
	slices.SortFunc(p.writes, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.at, b.at))
	})
}

func (p *plan) add(w write) { p.writes = append(p.writes, w) }

// stageNames stages the names that aren't stored, if entries are that may need them.
// Those of other transactions may be among them, which makes no difference.
func (p *plan) stageNames() {
	d, m := p.draft, p.memory
	end := NameIndex(len(m.names))
	switch {
	case d.naming > 0:
		end = min(end, p.names+d.naming)
	case len(p.writes) == 0 || p.writes[0].what != whatEntry:
		return
	}
	if d.naming == 0 && end-p.names > fewNames {
		end = p.needed() // the others' may be too many for a commit
	}
	for ; p.names < end; p.names++ {
		p.key = appendNameKey(m.layout, p.key[:0], p.names)
		p.batch.PutPrior(p.key, []byte(m.names[p.names]), batch.Absent)
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

func (p *plan) stageWrites() {
	for _, w := range p.writes {
		if w.what == whatEntry {
			p.key = appendEntryKey(p.memory.layout, p.key[:0], w.at)
		} else {
			p.key = appendMetadataKey(p.memory.layout, p.key[:0], w.id)
		}
		p.batch.PutPrior(p.key, w.value, prior(w.before))
	}
}

// stageFields stages the fields that change.
func (p *plan) stageFields() {
	d, m := p.draft, p.memory
	for f := range fields {
		later := slices.Contains(p.deferred.Keys(), deferred{what: whatField, field: f})
		if !d.sets(f) && !later {
			continue
		}
		value, same := m.values[f], false
		if f == fieldState {
			value = d.state(m.state).stored()
			same = string(value) == string(m.values[f]) && (value == nil) == (m.values[f] == nil)
		} else if d.sets(f) {
			same = !later && string(d.values[f]) == string(value) && (d.values[f] == nil) == (value == nil)
			value = d.values[f]
		}
		if same || value == nil && m.sizes[f] == absent {
			continue
		}
		p.fields[f] = true
		p.key = appendFieldKey(m.layout, p.key[:0], f)
		if f == fieldState {
			p.text = value
		}
		if value == nil {
			p.batch.DeletePrior(p.key, prior(m.sizes[f]))
		} else {
			p.batch.PutPrior(p.key, value, prior(m.sizes[f]))
		}
	}
}

// stageDeletions stages what is removed. What is put where something is removed must come
// after it, so such deletions are staged early; all others after everything else.
func (p *plan) stageDeletions(early bool) {
	d, m := p.draft, p.memory
	for _, s := range d.spans {
		puts := slices.ContainsFunc(d.changes, func(c change) bool { return s.holds(c.entry.Location) })
		if puts != early {
			continue
		}
		if s == everything {
			p.stageRange(m.layout.AppendWorkflowPart(nil, actorstore.WorkflowHistory),
				m.layout.AppendWorkflowPart(nil, actorstore.WorkflowHistory+1), m.freed(s))
			p.stageRange(m.layout.AppendWorkflowPart(nil, actorstore.WorkflowEntries),
				m.layout.AppendWorkflowPart(nil, actorstore.WorkflowEntries+1), m.freedMetadata())
			continue
		}
		p.stageRange(appendEntryKey(m.layout, nil, s.start), appendEntryKey(m.layout, nil, s.end), m.freed(s))
		from, to := m.span(s)
		for _, l := range m.order[from:to] {
			p.deleteMetadata(m.records[l])
		}
	}
	if !early {
		p.stageReplaced()
	}
}

// stageReplaced removes the metadata of entries in whose place others come.
func (p *plan) stageReplaced() {
	d, m := p.draft, p.memory
	for i := range d.changes {
		e := &d.changes[i].entry
		if rec := d.record(m, e.Location); rec != nil && rec.ID != e.ID {
			p.deleteMetadata(rec)
		}
	}
}

func (p *plan) stageRange(start, end []byte, freed int64) {
	if freed > 0 {
		p.batch.DeleteRangePrior(start, end, batch.Freed(freed))
	}
}

func (p *plan) deleteMetadata(rec *record) {
	if rec.metaSize != absent {
		p.key = appendMetadataKey(p.memory.layout, p.key[:0], rec.ID)
		p.batch.DeletePrior(p.key, prior(rec.metaSize))
	}
}

// maxOrphans is how many orphans a commit removes, and maxBeside how many writes it has at
// most: it must not become too large for that.
const (
	maxOrphans = 8
	maxBeside  = 32
)

// stageOrphans stages that some orphans are removed, if there is something to write. They
// are no orphans from here on: nothing may take one.
func (p *plan) stageOrphans() {
	d, m := p.draft, p.memory
	if len(p.writes) == 0 || len(p.writes) > maxBeside || slices.Contains(d.spans, everything) {
		return
	}
	for len(p.orphans) < maxOrphans {
		o, ok := m.orphans.pop(func(id string) bool { return d.findID(id) >= 0 })
		if !ok {
			return
		}
		p.orphans = append(p.orphans, o)
		p.key = appendMetadataKey(m.layout, p.key[:0], o.id)
		p.batch.DeletePrior(p.key, batch.Stored(o.size))
	}
}

// found returns what the actor is found by: the state of the workflow as it will be stored.
func (p *plan) found() (state string, stuck bool) {
	m := p.memory
	stored := func(f field) []byte {
		if p.fields[f] && p.draft.sets(f) {
			return p.draft.values[f]
		}
		return m.values[f]
	}
	text, input := string(m.values[fieldState]), stored(fieldInput)
	if p.fields[fieldState] {
		text = string(p.text)
	}
	return found(text, input, stored(fieldWaits))
}
