package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
	adds    []*item
	names   []string // of adds
	free    int      // adds that don't count against the limit: dead letters
	changes []*change
	bad     []Quarantined // to be removed
	keys    []*keyed      // that the adds take
	forget  []*keyed      // that are over

	written metadata      // as the last run of late has it
	settled chan struct{} // closed when the batch is settled
}

// A change is what a batch does to a message that is stored.
type change struct {
	st     *staging
	it     *item
	remove bool
	rec    []byte // the value to be stored, nil: what is stored stays
	to     lease  // what follows, unless the message is removed
	// answer goes to who waits for it, if the message is removed.
	answer   answer
	received bool            // for the metrics
	metric   *metrics.Metric // what else happens to it, nil for nothing
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
	st := &staging{q: q, batch: b, settled: make(chan struct{})}
	q.stagings[b] = st
	b.Late(st.late)
	b.OnCommit(st.commit)
	b.OnAbort(st.abort)
	return st, nil
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
	c := &change{st: st, it: it, to: it.lease}
	st.q.index.take(it)
	it.claim = c
	st.changes = append(st.changes, c)
	return c, nil
}

// unclaim forgets a change.
//
// +checklocks:q.mu
func (st *staging) unclaim(c *change) {
	st.changes = slices.DeleteFunc(st.changes, func(o *change) bool { return o == c })
	c.it.claim = nil
	st.q.put(c.it)
}

// put puts a message where it belongs, and wakes who waits for one.
//
// +checklocks:q.mu
func (q *Queue) put(it *item) {
	if q.index.put(it, !it.stays && q.dying(it.line.name, it.lease)) {
		q.wake(it.line.name)
	}
}

// dying says whether a message of that name has been handed out often enough.
func (q *Queue) dying(name string, l lease) bool {
	return q.opts.MaxReceive > 0 && l.deliveries >= uint32(q.opts.MaxReceive) && !q.isDead(name)
}

// add reserves an id for a message and stages it. Dead letters don't count.
//
// +checklocks:q.mu
func (st *staging) add(r *record, counts bool) (*item, error) {
	q := st.q
	if q.next == maxID {
		return nil, errNoIDs
	}
	it := &item{id: q.next, created: r.created, rec: r.encode(), lease: r.lease(q.visibility())}
	it.size = len(it.rec)
	q.next++
	q.staged[it.id] = st
	st.adds, st.names = append(st.adds, it), append(st.names, r.name)
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
	writes := make([]write, 0, len(st.adds)+len(st.changes))
	m := q.meta
	for _, it := range st.adds {
		writes = append(writes, write{it.id, it.rec, batch.Absent})
		m.next = max(m.next, it.id+1)
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
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(b.id, a.id) })
	m.size -= int64(len(st.bad))
	if st.written = m; m != q.meta || q.rebuilt {
		b.PutPrior(metadataKey(), m.encode(), q.prior)
	}
	var key [messageKeySize]byte
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
	if st.written != q.meta || q.rebuilt {
		q.meta, q.prior, q.rebuilt = st.written, batch.Stored(metadataSize), false
	}
	for i, it := range st.adds {
		q.index.enter(it, st.names[i])
		q.put(it)
		q.count(metricEnqueued, 1)
	}
	for _, c := range st.changes {
		st.apply(c)
	}
	q.count(metricDeleted, int64(len(st.bad)))
	st.commitKeys()
	st.end()
	q.mu.Unlock()
	q.arm()
}

// apply does what a change says.
//
// +checklocks:st.q.mu
func (st *staging) apply(c *change) {
	q, it := st.q, c.it
	it.claim = nil
	if c.received {
		q.count(metricReceived, 1)
	}
	if c.metric != nil {
		q.count(c.metric, 1)
	}
	if c.remove {
		q.index.leave(it)
		q.answer(it.id, c.answer)
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
	for _, it := range st.adds {
		q.answer(it.id, answer{err: errors.Join(ErrNoAnswer, reason)})
	}
	st.abortKeys()
	q.bad = append(q.bad, st.bad...)
	var part *actorstore.OrderedError
	if errors.As(reason, &part) && q.failed == nil {
		q.failed = errors.Join(ErrStale, reason)
	}
	st.end()
	// The ids above all that are stored or staged can be given again.
	q.next = q.meta.next
	for id := range q.staged {
		q.next = max(q.next, id+1)
	}
	if q.failed != nil || q.actor.Err() != nil {
		q.wakeAll() // to be told
	}
	q.mu.Unlock()
	q.arm()
}

// end forgets st.
//
// +checklocks:st.q.mu
func (st *staging) end() {
	q := st.q
	for _, it := range st.adds {
		delete(q.staged, it.id)
	}
	q.reserved -= len(st.adds) - st.free
	delete(q.stagings, st.batch)
	close(st.settled)
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
