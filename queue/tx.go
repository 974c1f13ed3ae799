package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
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
	q     *Queue
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
	keys    []*keyed      // that the adds take
	forget  []*keyed      // that are over

	grown   int64         // how many messages more there are by what is being committed
	landed  uint64        // the number of the commit
	told    []told        // answers that wait for stable storage
	spared  bool          // a dead letter had no room
	settled chan struct{} // closed when the batch is settled; nil while no call waits

	// What a Tx needs every time.
	spare  change
	writes []write
	meta   [metadataSize]byte
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
	back   bool   // it was received and given back, to be handed out again at once
	name   string // of a message that is back
	// answer goes to those that wait for it, if the message is removed.
	answer  answer
	granted *grant          // it is handed out, nil: it isn't
	waited  time.Duration   // how long it was there then
	metric  *metrics.Metric // what else happens to it, nil for nothing
	alive   *metrics.Metric // the same, should there be no room for the grave
}

// In returns what b does to the queue, which lands with everything else in b, or not at
// all. There is one Tx for each batch: In returns the same one every time.
func (q *Queue) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, q, func() *participant { return &participant{q: q, batch: b} }))
}

// begin is how every method starts: it enlists tx, so that Late is called, once more if it was
// called already.
//
// +checklocks:tx.q.mu
func (tx *Tx) begin() error {
	q, p := tx.q, batch.Participant((*participant)(tx))
	if err := q.usable(); err != nil {
		return err
	}
	if tx.batch.Settled() || tx.batch.Enlisted(q) != p {
		return batch.ErrSettled
	}
	tx.batch.Enlist(q, p)
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
	tx.bad, tx.keys, tx.forget, tx.told = nil, nil, nil, nil
	tx.back, tx.free, tx.grown, tx.landed, tx.settled, tx.spare, tx.spared = false, 0, 0, 0, nil, change{}, false
}

// maxKept bounds what a Tx keeps when it isn't used.
const maxKept = 256

// settledChan returns a channel that is closed when the batch is settled.
//
// +checklocks:tx.q.mu
func settledChan(tx *Tx) <-chan struct{} {
	if tx.settled == nil {
		tx.settled = make(chan struct{})
	}
	return tx.settled
}

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

// put puts a message where it belongs, and wakes a call that waits for one. One that hasn't
// landed belongs nowhere.
//
// +checklocks:q.mu
func (q *Queue) put(it *item) {
	if it.line == nil {
		return
	}
	if q.index.put(it, q.mustDie(it)) {
		q.wake(it.line.name)
	}
}

// mustDie says whether a message is to become a dead letter instead of visible.
//
// +checklocks:q.mu
func (q *Queue) mustDie(it *item) bool { return !it.stays && q.dying(it.line.name, it.lease) }

// dying says whether a message of that name has been handed out often enough.
func (q *Queue) dying(name string, l lease) bool {
	return q.opts.MaxReceive > 0 && l.deliveries >= uint32(q.opts.MaxReceive) && !strings.HasSuffix(name, q.opts.DeadLetter)
}

// add reserves an id for a message and stages it. Dead letters don't count against the
// limit.
//
// +checklocks:q.mu
func (tx *Tx) add(r *record, dead bool) (*item, error) {
	q := tx.q
	if q.next > lastID {
		return nil, ErrNoIDs
	}
	it := &item{id: q.next, created: r.created, rec: r.encode(), lease: r.lease(q.visibility())}
	it.size = len(it.rec)
	q.next++
	if !tx.own {
		q.shown = q.next
	}
	tx.adds = append(tx.adds, added{it: it, name: r.name, dead: dead})
	if dead {
		tx.free++
	} else {
		q.reserved++
	}
	return it, nil
}

// A write is one operation on a message's key.
type write struct {
	id    ID
	value []byte // nil: delete
	prior batch.Prior
}

// Late stages the writes: all of them again, if it is called again.
func (p *participant) Late(b *batch.Batch) error {
	tx := (*Tx)(p)
	q := tx.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !tx.begun {
		return nil
	}
	if err := q.usable(); err != nil {
		return err // a Queue opened since doesn't know what is staged here
	}
	tx.seal(b)
	tx.spareRoom()
	writes := tx.writes[:0]
	m, grown := q.landing, int64(0)
	for i := range tx.adds {
		a := &tx.adds[i]
		// Ids that batches showed to callers are skipped, whether they land or not.
		m.next = max(m.next, a.it.id+1, q.shown)
		value := a.value()
		if value != nil {
			grown++
		}
		if value != nil {
			wakeBy(b, &a.it.lease)
		}
		if value != nil || a.put {
			writes = append(writes, write{a.it.id, value, batch.Absent})
			a.put = true
		}
	}
	for _, c := range tx.changes {
		c.put = c.put || c.remove || c.rec != nil
		switch prior := batch.Stored(c.it.size); {
		case c.it.line == nil: // it is among the adds
		case c.remove:
			writes = append(writes, write{c.it.id, nil, prior})
			grown--
		case c.rec != nil:
			writes = append(writes, write{c.it.id, c.rec, prior})
			wakeBy(b, &c.to)
		}
	}
	// Each key lies below those before it, which spares the store a look at all of them;
	// and if a batch lands in part, the next id is there before the message.
	tx.writes = writes
	layout, key := q.actor.Layout(), [maxMessageKey]byte{}
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(b.id, a.id) })
	grown -= int64(len(tx.bad))
	m.size += grown - tx.grown
	tx.grown = grown
	if m != q.landing || q.rebuilt {
		q.landing = m
		b.PutPrior(layout.AppendQueueMetadata(key[:0]), m.append(tx.meta[:0]), q.prior)
	}
	for _, w := range writes {
		if k := appendMessageKey(layout, key[:0], w.id); w.value == nil {
			b.DeletePrior(k, w.prior)
		} else {
			b.PutPrior(k, w.value, w.prior)
		}
	}
	for _, bad := range tx.bad {
		b.Delete(bad.Key) // what is there is the store's to find out
	}
	return tx.lateKeys(b)
}

// wakeBy has the actor be awake when a message is visible.
func wakeBy(b *batch.Batch, l *lease) {
	if l.state == ready {
		b.WakeBy(time.Time{})
	} else {
		b.WakeBy(time.UnixMilli(l.at))
	}
}

// seal has Close wait for the commit of b, and begins anew what is written if that is another
// commit than the last one.
//
// +checklocks:tx.q.mu
func (tx *Tx) seal(b *batch.Batch) {
	if first, _ := tx.entry.Enter(b, &tx.q.works); !first { // the gate is open: see Late
		return
	}
	tx.q.landing, tx.grown = tx.q.meta, 0
	for _, c := range tx.changes {
		c.put = false
	}
	for i := range tx.adds {
		tx.adds[i].put = false
	}
}

// Landed makes the index follow the store.
func (p *participant) Landed() {
	tx := (*Tx)(p)
	q := tx.q
	q.mu.Lock()
	if !tx.begun {
		q.mu.Unlock()
		return
	}
	tx.landed = q.actor.Seq()
	if q.landing != q.meta || q.rebuilt {
		q.meta, q.prior, q.rebuilt = q.landing, batch.Stored(metadataSize), false
	}
	for _, a := range tx.adds {
		if q.index.enter(a.it, a.name); a.it.claim == nil {
			q.put(a.it)
		}
	}
	q.meter.Count(metricEnqueued, int64(len(tx.adds)))
	for _, c := range tx.changes {
		tx.apply(c)
	}
	q.meter.Count(metricDeleted, int64(len(tx.bad)))
	tx.commitKeys()
	tx.end()
	tx.roomMade()
	if !tx.own {
		q.tellLater(tx.told)
	}
	q.mu.Unlock()
	q.arm()
}

// apply does what a change says.
//
// +checklocks:tx.q.mu
func (tx *Tx) apply(c *change) {
	q, it := tx.q, c.it
	it.claim = nil
	if c.granted != nil {
		c.granted.landed.Store(tx.landed)
		q.meter.Count(metricReceived, 1)
		q.meter.Observe(metricWait, c.waited)
	}
	if c.metric != nil {
		q.meter.Count(c.metric, 1)
	}
	if c.remove {
		q.index.leave(it)
		if waiting := q.answers[it.id]; len(waiting) > 0 {
			delete(q.answers, it.id)
			tx.told = append(tx.told, told{waiting, c.answer})
		}
		return
	}
	if it.lease = c.to; c.rec != nil {
		it.size = len(c.rec)
		q.index.keep(it, c.rec)
	}
	q.put(it)
}

// Failed gives back what was claimed.
func (p *participant) Failed(reason error, partly bool) {
	tx := (*Tx)(p)
	q := tx.q
	q.mu.Lock()
	if !tx.begun {
		q.mu.Unlock()
		return
	}
	for _, c := range tx.changes {
		c.it.claim = nil
		q.put(c.it)
	}
	for _, a := range tx.adds {
		q.answer(a.it.id, answer{err: errors.Join(ErrNoAnswer, reason)})
	}
	tx.abortKeys()
	q.bad = append(q.bad, tx.bad...)
	if partly && q.failed == nil {
		q.failed = errors.Join(ErrStale, reason)
	}
	tx.end()
	q.rewind()
	if q.failed != nil || q.actor.Err() != nil {
		q.wakeAll() // to be told
	}
	q.mu.Unlock()
	q.arm()
}

// rewind has the ids above all that are stored, staged, or known to others given again.
//
// +checklocks:q.mu
func (q *Queue) rewind() {
	q.next = max(q.meta.next, q.shown)
	for _, tx := range q.open {
		for _, a := range tx.adds {
			q.next = max(q.next, a.it.id+1)
		}
	}
}

// staged reports whether a batch is about to enqueue the message.
//
// +checklocks:q.mu
func (q *Queue) staged(id ID) bool {
	for _, tx := range slices.Backward(q.open) { // the newest is asked for most
		if slices.ContainsFunc(tx.adds, func(a added) bool { return a.it.id == id }) {
			return true
		}
	}
	return false
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
	if tx.settled != nil {
		close(tx.settled)
	}
}

// value returns the stored value of a message that is claimed, which no other batch
// can change meanwhile. The slice must not be changed.
func (q *Queue) value(ctx context.Context, it *item) ([]byte, error) {
	q.mu.Lock()
	rec := it.rec
	q.mu.Unlock()
	if rec != nil {
		return rec, nil
	}
	return q.actor.Get(ctx, appendMessageKey(q.actor.Layout(), nil, it.id), nil)
}
