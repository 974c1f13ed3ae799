package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// A Tx is everything that one batch does to the queue: see Queue.In. Its methods stage what
// the Queue's methods of the same names commit, and may be called until the batch is
// settled, also by its late participants; after that they return batch.ErrSettled. Like the
// batch, a Tx is not safe for concurrent use.
//
// What is staged is claimed at once, and nothing else in memory changes before the commit.
// If the batch doesn't land, what was claimed is given back. On an error nothing was staged.
type Tx struct {
	q     *committer
	batch *batch.Batch
	own   bool // the batch is the queue's: no caller was told of its ids before the commit

	// The fields below are guarded by q.mu. Writes are not put into the batch as they come,
	// but when it is sealed, one for each message: what is received and completed in one
	// batch is a single delete.
	begun   bool // something was to be staged; tx is q.open[place]
	place   int
	entry   batch.Entry // while a commit is under way
	adds    additions
	free    int // adds that don't count against the limit: dead letters
	changes []*change
	back    bool          // one of them is back, or was
	bad     []Quarantined // to be removed
	keys    keyClaims     // that the adds take

	grown  int64  // how many messages more there are by what is being committed
	landed uint64 // the number of the commit
	told   []told // answers that wait for stable storage
	spared bool   // a dead letter had no room

	onlyReady bool // Delete refuses what is leased or delayed

	// What a Tx needs every time.
	spare  change
	writes []write
}

// A participant is a Tx as its batch sees it.
type participant Tx

// An added is a new message. Its item is in no order, and not in the index, before the
// batch has landed.
type added struct {
	it   *item
	name string
	dead bool // it takes the place of another one, and isn't to be had before it has landed
	put  bool // the write is in what is being committed
}

// value returns what is to be stored of a new message: nil if the batch that adds it
// removes it, too.
func (a *added) value() []byte {
	switch c := a.it.claim; {
	case c == nil:
	case c.remove:
		return nil
	case c.rec != nil:
		return c.rec
	}
	return a.it.rec
}

// additions are the new messages of a batch, in the order of their ids.
type additions []added

// find returns the message of that id, nil without one, and for a dead letter.
func (all additions) find(id ID) *item {
	i, ok := slices.BinarySearchFunc(all, id, func(a added, id ID) int { return cmp.Compare(a.it.id, id) })
	if !ok || all[i].dead {
		return nil
	}
	return all[i].it
}

// first returns the first message that can be handed out, of those names if there are any;
// nil without one.
func (all additions) first(names []string) *item {
	for i := range all {
		a := &all[i]
		if a.it.state == ready && a.it.claim == nil && !a.dead && (len(names) == 0 || slices.Contains(names, a.name)) {
			return a.it
		}
	}
	return nil
}

// A change is what a batch does to a message that is stored, or that the batch adds.
type change struct {
	tx     *Tx
	it     *item
	remove bool
	put    bool   // the write is in what is being committed
	rec    []byte // the value to be stored, nil: what is stored, or added, stays
	grave  *item  // the dead letter that takes its place, nil: none does
	to     lease  // what follows, unless the message is removed
	past   *past  // what is then known besides, nil: nothing that rec doesn't say
	back   bool   // it was received and given back, to be handed out again at once
	name   string // of a message that is back
	// answer goes to those that wait for it, if the message is removed.
	answer  answer
	granted *grant          // it is handed out, nil: it isn't
	waited  time.Duration   // how long it was there then
	metric  *metrics.Metric // what else happens to it, nil for nothing
	alive   *metrics.Metric // the same, should there be no room for the grave
}

// A write is one operation on a message's key.
type write struct {
	id    ID
	value []byte // nil: delete
	prior batch.Prior
}

// In returns what b does to the queue, which lands with everything else in b, or not at
// all. There is one Tx for each batch: In returns the same one every time.
func (q *Queue) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, &q.committer, func() *participant { return &participant{q: &q.committer, batch: b} }))
}

// begin is how every method starts: it enlists tx, so that Late is called, once more if it was
// called already.
//
// +checklocks:tx.q.mu
func (tx *Tx) begin() error {
	q := tx.q
	if err := q.usable(); err != nil {
		return err
	}
	if err := tx.batch.EnlistAgain(q, (*participant)(tx)); err != nil {
		return err
	}
	if !tx.begun {
		tx.begun, tx.place = true, len(q.open)
		q.open = append(q.open, tx)
	}
	return nil
}

// reset makes tx ready to begin again, once its batch has been Reset. It keeps memory for
// work of the usual size.
func (tx *Tx) reset() {
	if cap(tx.adds)+cap(tx.changes)+cap(tx.writes) > maxKept {
		tx.adds, tx.changes, tx.writes = nil, nil, nil
	}
	clear(tx.adds[:cap(tx.adds)])
	clear(tx.changes[:cap(tx.changes)])
	clear(tx.writes[:cap(tx.writes)])
	tx.adds, tx.changes, tx.writes = tx.adds[:0], tx.changes[:0], tx.writes[:0]
	tx.bad, tx.keys, tx.told = nil, keyClaims{}, nil
	tx.back, tx.free, tx.grown, tx.landed, tx.spare, tx.spared = false, 0, 0, 0, change{}, false
}

// maxKept bounds what a Tx keeps when it isn't used.
const maxKept = 256

// claim takes a message for tx, or returns the change that tx is about to make already.
//
// +checklocks:q.mu
func (tx *Tx) claim(it *item) (*change, error) {
	if c := it.claim; c != nil {
		if c.tx != tx {
			return nil, ErrBusy
		}
		return c, nil
	}
	c := &tx.spare
	if c.it != nil {
		c = new(change)
	}
	*c = change{tx: tx, it: it, to: it.lease}
	tx.q.index.take(it)
	it.claim = c
	tx.changes = append(tx.changes, c)
	return c, nil
}

// unclaim forgets a change.
//
// +checklocks:q.mu
func (tx *Tx) unclaim(c *change) {
	it := c.it
	tx.forgetChange(c)
	tx.q.put(it)
}

// forgetChange takes a change back, and leaves its message in no order.
//
// +checklocks:tx.q.mu
func (tx *Tx) forgetChange(c *change) {
	tx.changes = slices.DeleteFunc(tx.changes, func(o *change) bool { return o == c })
	c.it.claim = nil
	*c = change{}
}

// setAside gives up a change of a message that can't be read, and the message with it.
func (tx *Tx) setAside(c *change, err error) {
	q := tx.q
	q.mu.Lock()
	defer q.mu.Unlock()
	it := c.it
	tx.forgetChange(c)
	q.putAside(it, fmt.Errorf("it can't be read: %w", err))
}

// add reserves an id for a message and stages it. Dead letters don't count against the
// limit.
//
// +checklocks:q.mu
func (tx *Tx) add(r *record, dead bool) (*item, error) {
	q := tx.q
	id, err := q.numbers.take(!tx.own)
	if err != nil {
		return nil, err
	}
	it := &item{id: id, created: r.created, rec: r.encode(), lease: r.lease(q.visibility())}
	it.size = len(it.rec)
	if !r.past.failed() {
		it.past = r.past.kept()
	}
	tx.adds = append(tx.adds, added{it: it, name: r.name, dead: dead})
	if dead {
		tx.free++
	} else {
		q.reserved++
	}
	return it, nil
}

// lease stages what becomes of a message that is r now. If that can't be stored, since
// readers must not see it or the value has no room, memory alone knows.
//
// +checklocks:tx.q.mu
func (tx *Tx) lease(c *change, r *record, to lease, now int64) {
	c.to, c.rec, c.back, c.past = to, nil, false, r.past.kept()
	if tx.q.opts.Plain {
		return
	}
	r.setLease(to, now)
	r.fit(tx.q.tells, tx.q.most)
	if r.size() <= tx.q.limit {
		c.rec = r.encode()
	}
}

// fit leaves out what a record says of attempts that failed if it may not be stored, or would
// not let the message become a dead letter.
func (r *record) fit(tells bool, most int) {
	if r.past.failed() && (!tells || r.size() > most) {
		r.past = past{}
	}
}

// read returns what is known of a message that is claimed. The body is a part of the stored
// value, and must not be changed.
func (c *change) read(ctx context.Context) (r record, err error) {
	// The same batch may have received it: then it is not stored as it will be.
	value := c.rec
	if value == nil {
		value, err = c.tx.q.value(ctx, c.it)
	}
	if err == nil {
		r, err = parseRecord(value)
	}
	if p := cmp.Or(c.past, c.it.past); err == nil && p != nil {
		r.past = *p
	}
	return r, err
}

// end has the queue forget tx.
//
// +checklocks:tx.q.mu
func (tx *Tx) end() {
	q := tx.q
	last := len(q.open) - 1
	q.open[tx.place], q.open[last].place = q.open[last], tx.place
	q.open[last] = nil
	q.open = q.open[:last]
	tx.begun = false
	q.reserved -= len(tx.adds) - tx.free
	tx.keys.end()
}
