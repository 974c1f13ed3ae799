package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// A staging is everything that one batch does to the queue. Writes are not put into the
// batch as they come but by its Late function, one for each message: what is received
// and completed in one batch is a single delete. Its fields are guarded by Queue.mu.
type staging struct {
	q       *Queue
	batch   *batch.Batch
	own     bool // the batch is the queue's: what it would have done nobody knows but the queue
	adds    []added
	free    int // adds that don't count against the limit: dead letters
	changes []*change
	bad     []Quarantined // to be removed
	keys    []*keyed      // that the adds take
	forget  []*keyed      // that are over

	written metadata      // as the last run of late has it
	landed  uint64        // the number of the commit
	told    []told        // answers that wait for stable storage
	spared  bool          // a dead letter had no room
	settled chan struct{} // closed when the batch is settled; nil while nobody waits

	// What a staging needs every time.
	onLate   func(*batch.Batch) error
	onCommit func()
	onAbort  func(error)
	spare    change
	writes   []write
	meta     [metadataSize]byte
}

// An added is a new message.
type added struct {
	it   *item
	name string
}

// A change is what a batch does to a message that is stored.
type change struct {
	st     *staging
	it     *item
	remove bool
	rec    []byte // the value to be stored, nil: what is stored stays
	grave  *item  // the dead letter that takes its place, nil: none does
	to     lease  // what follows, unless the message is removed
	// answer goes to who waits for it, if the message is removed.
	answer  answer
	granted *grant          // it is handed out, nil: it isn't
	waited  time.Duration   // how long it was there then
	metric  *metrics.Metric // what else happens to it, nil for nothing
	alive   *metrics.Metric // the same, should there be no room for the grave
}

// staging returns what b does to the queue.
//
// +checklocks:q.mu
func (q *Queue) staging(b *batch.Batch) (*staging, error) {
	if st := q.stagings[b]; st != nil {
		return st, nil
	}
	if err := q.usable(); err != nil {
		return nil, err
	}
	if b.Settled() {
		return nil, batch.ErrSettled
	}
	st := new(staging)
	st.init(q, b)
	st.begin()
	return st, nil
}

func (st *staging) init(q *Queue, b *batch.Batch) {
	st.q, st.batch = q, b
	st.onLate, st.onCommit, st.onAbort = st.late, st.commit, st.abort
}

// begin makes st what its batch does to the queue.
//
// +checklocks:st.q.mu
func (st *staging) begin() {
	st.q.stagings[st.batch] = st
	st.batch.Late(st.onLate)
	st.batch.OnCommit(st.onCommit)
	st.batch.OnAbort(st.onAbort)
}

// reset makes st ready to begin again, once its batch has been Reset. It keeps memory for
// work of the usual size.
func (st *staging) reset() {
	if cap(st.adds)+cap(st.changes)+cap(st.writes) > maxKept {
		st.adds, st.changes, st.writes = nil, nil, nil
	}
	clear(st.adds[:cap(st.adds)])
	clear(st.changes[:cap(st.changes)])
	clear(st.writes[:cap(st.writes)])
	st.adds, st.changes, st.writes = st.adds[:0], st.changes[:0], st.writes[:0]
	st.bad, st.keys, st.forget, st.told = nil, nil, nil, nil
	st.free, st.written, st.landed, st.settled, st.spare, st.spared = 0, metadata{}, 0, nil, change{}, false
}

// maxKept bounds what a staging keeps when it isn't used.
const maxKept = 256

// done returns a channel that is closed when st is settled.
//
// +checklocks:st.q.mu
func (st *staging) done() <-chan struct{} {
	if st.settled == nil {
		st.settled = make(chan struct{})
	}
	return st.settled
}

// claim takes a message for st, or returns the change that st has in mind already.
//
// +checklocks:q.mu
func (st *staging) claim(it *item) (*change, error) {
	if c := it.claim; c != nil {
		if c.st != st {
			return nil, ErrBusy
		}
		return c, nil
	}
	c := &st.spare
	if c.it != nil {
		c = new(change)
	}
	*c = change{st: st, it: it, to: it.lease}
	st.q.index.take(it)
	it.claim = c
	st.changes = append(st.changes, c)
	return c, nil
}

// unclaim forgets a change.
//
// +checklocks:q.mu
func (st *staging) unclaim(c *change) {
	it := c.it
	st.forgetChange(c)
	st.q.put(it)
}

// forgetChange takes a change back, and leaves its message in no order.
//
// +checklocks:st.q.mu
func (st *staging) forgetChange(c *change) {
	st.changes = slices.DeleteFunc(st.changes, func(o *change) bool { return o == c })
	c.it.claim = nil
	*c = change{}
}

// put puts a message where it belongs, and wakes who waits for one.
//
// +checklocks:q.mu
func (q *Queue) put(it *item) {
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
	return q.opts.MaxReceive > 0 && l.deliveries >= uint32(q.opts.MaxReceive) && !q.isDead(name)
}

// add reserves an id for a message and stages it. Dead letters don't count.
//
// +checklocks:q.mu
func (st *staging) add(r *record, counts bool) (*item, error) {
	q := st.q
	if q.next > lastID {
		return nil, ErrNoIDs
	}
	it := &item{id: q.next, created: r.created, rec: r.encode(), lease: r.lease(q.visibility())}
	it.size = len(it.rec)
	q.next++
	if !st.own {
		q.shown = q.next
	}
	q.staged[it.id] = st
	st.adds = append(st.adds, added{it, r.name})
	if counts {
		q.reserved++
	} else {
		st.free++
	}
	return it, nil
}

// A write is one operation on a message's key.
type write struct {
	id    ID
	value []byte // nil: delete
	prior batch.Prior
}

// late stages the writes. It may run again, if its batch is joined to another one.
func (st *staging) late(b *batch.Batch) error {
	q := st.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.usable(); err != nil {
		return err // who opened the queue anew doesn't know what is staged here
	}
	st.spareRoom()
	writes := st.writes[:0]
	m := q.meta
	for _, a := range st.adds {
		writes = append(writes, write{a.it.id, a.it.rec, batch.Absent})
		// Ids that batches have shown to somebody are skipped, if they land or not.
		m.next = max(m.next, a.it.id+1, q.shown)
		m.size++
	}
	for _, c := range st.changes {
		switch prior := batch.Stored(c.it.size); {
		case c.remove:
			writes = append(writes, write{c.it.id, nil, prior})
			m.size--
		case c.rec != nil:
			writes = append(writes, write{c.it.id, c.rec, prior})
		}
	}
	// Each key lies below those before it, which spares the store a look at all of them;
	// and if a batch lands in part, the next id is there before the message.
	st.writes = writes
	var key [messageKeySize]byte
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(b.id, a.id) })
	m.size -= int64(len(st.bad))
	if st.written = m; m != q.meta || q.rebuilt {
		b.PutPrior(actorstore.AppendQueueMetadata(key[:0]), m.append(st.meta[:0]), q.prior)
	}
	for _, w := range writes {
		if k := appendMessageKey(key[:0], w.id); w.value == nil {
			b.DeletePrior(k, w.prior)
		} else {
			b.PutPrior(k, w.value, w.prior)
		}
	}
	for _, bad := range st.bad {
		b.Delete(bad.Key) // what is there is the store's to find out
	}
	return st.lateKeys(b)
}

// commit makes the index follow the store.
func (st *staging) commit() {
	q := st.q
	q.mu.Lock()
	st.landed = q.actor.Seq()
	if st.written != q.meta || q.rebuilt {
		q.meta, q.prior, q.rebuilt = st.written, batch.Stored(metadataSize), false
	}
	for _, a := range st.adds {
		q.index.enter(a.it, a.name)
		q.put(a.it)
	}
	q.count(metricEnqueued, int64(len(st.adds)))
	for _, c := range st.changes {
		st.apply(c)
	}
	q.count(metricDeleted, int64(len(st.bad)))
	st.commitKeys()
	st.end()
	st.roomMade()
	if !st.own {
		q.tellLater(st.told)
	}
	q.mu.Unlock()
	q.arm()
}

// apply does what a change says.
//
// +checklocks:st.q.mu
func (st *staging) apply(c *change) {
	q, it := st.q, c.it
	it.claim = nil
	if c.granted != nil {
		c.granted.landed.Store(st.landed)
		q.count(metricReceived, 1)
		q.observe(metricWait, c.waited)
	}
	if c.metric != nil {
		q.count(c.metric, 1)
	}
	if c.remove {
		q.index.leave(it)
		if waiting := q.answers[it.id]; len(waiting) > 0 {
			delete(q.answers, it.id)
			st.told = append(st.told, told{waiting, c.answer})
		}
		return
	}
	if it.lease = c.to; c.rec != nil {
		it.size = len(c.rec)
		q.index.keep(it, c.rec)
	}
	q.put(it)
}

// abort gives back what was claimed.
func (st *staging) abort(reason error) {
	q := st.q
	q.mu.Lock()
	for _, c := range st.changes {
		c.it.claim = nil
		q.put(c.it)
	}
	for _, a := range st.adds {
		q.answer(a.it.id, answer{err: errors.Join(ErrNoAnswer, reason)})
	}
	st.abortKeys()
	q.bad = append(q.bad, st.bad...)
	var part *batch.OrderedError
	if errors.As(reason, &part) && q.failed == nil {
		q.failed = errors.Join(ErrStale, reason)
	}
	st.end()
	q.rewind()
	if q.failed != nil || q.actor.Err() != nil {
		q.wakeAll() // to be told
	}
	q.mu.Unlock()
	q.arm()
}

// rewind has the ids above all that are stored, staged, or known to somebody given again.
//
// +checklocks:q.mu
func (q *Queue) rewind() {
	q.next = max(q.meta.next, q.shown)
	for id := range q.staged {
		q.next = max(q.next, id+1)
	}
}

// end forgets st.
//
// +checklocks:st.q.mu
func (st *staging) end() {
	q := st.q
	for _, a := range st.adds {
		delete(q.staged, a.it.id)
	}
	q.reserved -= len(st.adds) - st.free
	delete(q.stagings, st.batch)
	if st.settled != nil {
		close(st.settled)
	}
}

// value returns the stored value of a message that st has claimed, which nobody else can
// change meanwhile. The slice must not be changed.
func (q *Queue) value(ctx context.Context, it *item) ([]byte, error) {
	q.mu.Lock()
	rec := it.rec
	q.mu.Unlock()
	if rec != nil {
		return rec, nil
	}
	return q.actor.Get(ctx, appendMessageKey(nil, it.id), nil)
}
