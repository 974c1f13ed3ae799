package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is changes that land together, in the order of the calls: what is put after a
// Delete stays, what was put before doesn't. It keeps what it is given, which must not be
// changed. It is not safe for concurrent use, and reads of the History don't see it before
// it lands. Then, or when it was deferred, it is used up, and its methods are errInvalid.
// Free has another Begin use its memory.
type Tx struct {
	h *History

	changes []change
	at      map[Location]int // where they are in changes, once they are many
	ids     map[string]int   // the same by id
	spans   []span           // that are removed, none of which touch
	reset   bool
	restart bool           // of one that is over
	set     [fields]bool   // which fields are changed
	values  [fields][]byte // to what; nil: removed. That of the state isn't used.
	to      State
	failure *Failure // what the error's value says

	// naming says that tx only writes names, as many as this.
	naming NameIndex

	buf   []byte // what values of changes are parts of
	used  bool
	plan  plan
	entry batch.Entry // while a commit is under way

	// What the usual transaction takes, a step's.
	room struct {
		buf     [384]byte
		changes [2]change
		writes  [4]write
	}
}

// A change is an entry that is put, or whose metadata are, or both.
type change struct {
	entry     Entry  // with an ID, and without a Kind if it isn't put
	value     []byte // encoded, nil: the entry isn't put
	metadata  *Metadata
	metaValue []byte // encoded, nil: the metadata aren't put
}

// Begin returns an empty transaction. It takes no lock, and needn't be ended.
func (h *History) Begin() *Tx { return h.txs.Get().(*Tx) }

// newTx returns a transaction whose memory serves all that come after it.
func (h *History) newTx() *Tx {
	tx := &Tx{h: h}
	tx.empty()
	return tx
}

// empty makes tx as Begin returns it, and keeps nothing alive that it was given.
func (tx *Tx) empty() {
	clear(tx.room.changes[:])
	clear(tx.room.writes[:])
	tx.changes, tx.at, tx.ids, tx.spans = tx.room.changes[:0], nil, nil, nil
	tx.reset, tx.restart, tx.set, tx.values, tx.to, tx.failure = false, false, [fields]bool{}, [fields][]byte{}, Pending, nil
	tx.buf, tx.used, tx.naming = tx.room.buf[:0], false, 0
	tx.plan = plan{writes: tx.room.writes[:0], key: tx.plan.key[:0]}
}

// Free gives tx up, whose memory another Begin uses: neither tx nor a batch that it is
// staged in may be used any more. Not to call it does no harm.
func (tx *Tx) Free() {
	tx.empty()
	tx.h.txs.Put(tx)
}

var errUsed = fmt.Errorf("%w transaction: it has landed", errInvalid)

// Put adds an entry, or replaces the one at its location. One without an ID gets that of
// the entry that it replaces, or a new one. With the same ID the metadata stay; with
// another they are removed. e.Metadata is ignored. Errors in it that are longer than 16
// KiB are cut.
//
// Errors are a *SizeError, when the entry is larger than the store takes, and errInvalid;
// then tx is as it was.
func (tx *Tx) Put(e Entry) error {
	if tx.used {
		return errUsed
	}
	if err := tx.identify(&e); err != nil {
		return err
	}
	value, err := tx.h.encode(&e, tx.buf)
	if err != nil {
		return err
	}
	tx.buf = value[len(value):]
	e.Metadata = nil
	c := tx.change(e.Location, e.ID)
	c.entry, c.value = e, value
	return nil
}

// identify gives e an ID, or looks whether another entry has it.
func (tx *Tx) identify(e *Entry) error {
	tx.h.mu.RLock()
	defer tx.h.mu.RUnlock()
	if e.ID != "" {
		return tx.unique(e)
	}
	if c := tx.find(e.Location); c != nil {
		e.ID = c.entry.ID
	} else if rec := tx.record(e.Location); rec != nil {
		e.ID = rec.ID
	} else {
		e.ID = tx.h.opts.NewID()
	}
	return nil
}

// unique returns an error if another entry has the ID of e. An entry doesn't move: one that
// tx removes has it, too, unless that is everything.
//
// +checklocksread:tx.h.mu
func (tx *Tx) unique(e *Entry) error {
	other, taken := tx.h.m.ids[e.ID]
	if taken = taken && !slices.Contains(tx.spans, everything); !taken {
		if i := tx.findID(e.ID); i >= 0 {
			other, taken = tx.changes[i].entry.Location, true
		}
	}
	if taken && other != e.Location {
		return fmt.Errorf("%w entry: %s has the id %q", errInvalid, appendPath(nil, other, tx.h.m.names), e.ID)
	}
	return nil
}

// record returns what is at l in memory, nil if there is nothing or tx removes it.
//
// +checklocksread:tx.h.mu
func (tx *Tx) record(l Location) *record {
	if tx.removes(l) {
		return nil
	}
	return tx.h.m.records[l]
}

// removes reports whether tx removes what is at l in memory.
func (tx *Tx) removes(l Location) bool {
	return slices.ContainsFunc(tx.spans, func(s span) bool { return s.holds(l) })
}

// few is how many changes are looked through without a map.
const few = 8

// find returns the change at l, nil for none. It is good until the next one is added.
func (tx *Tx) find(l Location) *change {
	if len(tx.changes) > few {
		if i, ok := tx.at[l]; ok {
			return &tx.changes[i]
		}
		return nil
	}
	for i := range tx.changes {
		if tx.changes[i].entry.Location == l {
			return &tx.changes[i]
		}
	}
	return nil
}

// findID returns which change is of the entry id, −1 if none is.
func (tx *Tx) findID(id string) int {
	if len(tx.changes) > few {
		if i, ok := tx.ids[id]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(tx.changes, func(c change) bool { return c.entry.ID == id })
}

// change returns the change at l of the entry id, a new one if it has none, or only one
// of another entry.
func (tx *Tx) change(l Location, id string) *change {
	c := tx.find(l)
	if c == nil {
		tx.changes = append(tx.changes, change{entry: Entry{ID: id, Location: l}})
		c = &tx.changes[len(tx.changes)-1]
		switch n := len(tx.changes); {
		case n == few+1:
			tx.reindex()
		case n > few:
			tx.at[l], tx.ids[id] = n-1, n-1
		}
	} else if c.entry.ID != id {
		*c = change{entry: Entry{ID: id, Location: l}}
		if len(tx.changes) > few {
			tx.reindex()
		}
	}
	return c
}

// reindex makes the maps of the changes anew.
func (tx *Tx) reindex() {
	tx.at, tx.ids = make(map[Location]int, 2*few), make(map[string]int, 2*few)
	for i := range tx.changes {
		tx.at[tx.changes[i].entry.Location] = i
		tx.ids[tx.changes[i].entry.ID] = i
	}
}

// Split returns a transaction of the first n entries that tx puts, which may land before it,
// and leaves tx the rest; nil if there are no more, or if tx removes something.
func (tx *Tx) Split(n int) *Tx {
	if len(tx.changes) <= n || len(tx.spans) > 0 || tx.used {
		return nil
	}
	first := tx.h.Begin()
	first.changes = append(first.changes, tx.changes[:n]...)
	tx.changes = tx.changes[n:]
	for _, part := range []*Tx{first, tx} {
		if len(part.changes) > few {
			part.reindex()
		}
	}
	return first
}

// PutMetadata replaces the metadata of the entry at l, which must be there, or put by tx
// before. Errors are those of Put.
func (tx *Tx) PutMetadata(l Location, m Metadata) error {
	if tx.used {
		return errUsed
	}
	tx.h.mu.RLock()
	rec := tx.record(l)
	tx.h.mu.RUnlock()
	var id string
	if c := tx.find(l); c != nil {
		id = c.entry.ID
	} else if rec != nil {
		id = rec.ID
	} else {
		return fmt.Errorf("%w metadata: there is no entry %s", errInvalid, tx.h.Path(l))
	}
	value, err := tx.h.encodeMetadata(l, id, &m, tx.buf)
	if err != nil {
		return err
	}
	tx.buf = value[len(value):]
	c := tx.change(l, id)
	c.metadata, c.metaValue = &m, value
	return nil
}

// Delete removes the entry at scope and all in it, with their metadata. Names stay. The
// root is everything, metadata of entries that aren't there included.
func (tx *Tx) Delete(scope Location) { tx.remove(in(scope)) }

// DeleteIterations removes all entries in the iterations [from, to) of the loop at l, with
// one write for all and one for each that has metadata.
func (tx *Tx) DeleteIterations(l Location, from, to uint32) {
	_, loop, ok := l.Parent()
	if !ok || loop.Loop {
		panic(fmt.Sprintf("history: %x is not the location of a loop", string(l)))
	}
	if from < to {
		tx.remove(span{l.Iteration(loop.Name, from), l.Iteration(loop.Name, to)})
	}
}

// remove adds a span, and forgets what is put in it.
func (tx *Tx) remove(s span) {
	tx.changes = slices.DeleteFunc(tx.changes, func(c change) bool { return s.holds(c.entry.Location) })
	if len(tx.changes) > few {
		tx.reindex()
	}
	// What touches becomes one: the store is told what a range holds, and counts it once.
	tx.spans = slices.DeleteFunc(tx.spans, func(o span) bool {
		if o.end < s.start || s.end < o.start {
			return false
		}
		s = span{min(s.start, o.start), max(s.end, o.end)}
		return true
	})
	tx.spans = append(tx.spans, s)
}

// Stage has tx land with b, together with everything that was deferred and all new names.
// What is written is decided under the actor's commit lock, when b is sealed; b must be
// Atomic and take no other Tx of this History, else it is refused then, as it is with the
// errors of the methods above. Memory changes when b is applied. If b is given up tx is as
// it was, and may be staged again.
//
// A commit reads nothing for it.
func (tx *Tx) Stage(b *batch.Batch) { b.Enlist(tx, (*staged)(tx)) }

// Commit lands tx in a batch of its own and returns when it is on stable storage, and so
// is everything that was committed before. Errors are those of the methods above and of
// Actor.Commit. If there is nothing to write it writes nothing.
func (tx *Tx) Commit(ctx context.Context) error {
	b := tx.h.works.Get().(*batch.Batch)
	tx.Stage(b)
	err := tx.h.actor.Commit(ctx, b)
	b.Reset()
	tx.h.works.Put(b)
	return err
}

// Flush writes what was deferred, and returns when that and everything that was committed
// before is on stable storage.
func (h *History) Flush(ctx context.Context) error {
	tx := h.Begin()
	defer tx.Free()
	return tx.Commit(ctx)
}
