package history

import (
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is changes that land together, in the order of the calls: what is put after a
// Delete stays, what was put before doesn't. It keeps what it is given, which must not be
// changed. It is not safe for concurrent use, and reads of the History don't see it before
// it lands. Then, or when it was deferred, it is used up, and its methods are errInvalid.
// Free has another Begin use its memory.
type Tx struct {
	h *committer
	draft
	plan plan

	buf   []byte // what values of changes are parts of
	used  bool
	entry batch.Entry // while a commit is under way

	// What the usual transaction takes, a step's.
	room struct {
		buf     [384]byte
		changes [2]change
		writes  [4]write
	}
}

// newTx returns a transaction whose memory serves all that come after it.
func newTx(h *committer) *Tx {
	tx := &Tx{h: h}
	tx.empty()
	return tx
}

// empty makes tx as Begin returns it, and keeps nothing alive that it was given.
func (tx *Tx) empty() {
	clear(tx.room.changes[:])
	clear(tx.room.writes[:])
	tx.draft = draft{changes: tx.room.changes[:0]}
	tx.plan = plan{writes: tx.room.writes[:0], key: tx.plan.key[:0]}
	tx.buf, tx.used = tx.room.buf[:0], false
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
		return tx.unique(&tx.h.m, e)
	}
	if c := tx.find(e.Location); c != nil {
		e.ID = c.entry.ID
	} else if rec := tx.record(&tx.h.m, e.Location); rec != nil {
		e.ID = rec.ID
	} else {
		e.ID = tx.h.opts.NewID()
	}
	return nil
}

// PutMetadata replaces the metadata of the entry at l, which must be there, or put by tx
// before. Errors are those of Put.
func (tx *Tx) PutMetadata(l Location, m Metadata) error {
	if tx.used {
		return errUsed
	}
	tx.h.mu.RLock()
	rec := tx.record(&tx.h.m, l)
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

// Split returns a transaction of the first n entries that tx puts, which may land before it,
// and leaves tx the rest; nil if there are no more, or if tx removes something.
func (tx *Tx) Split(n int) *Tx {
	if len(tx.changes) <= n || len(tx.spans) > 0 || tx.used {
		return nil
	}
	first := tx.h.txs.Get().(*Tx)
	tx.split(n, &first.draft)
	return first
}
