package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/drain"
)

// A committer commits what is staged, in batches of the queue's own or of callers, and knows how far that has come. What it has
// besides the contents has no lock, or its own.
type committer struct {
	contents
	bell    bell
	works   drain.Gate    // of commits under way, and what the queue does by itself; contents.closed is set before it is
	durable atomic.Uint64 // the newest commit that is known to be on stable storage
	batches sync.Pool     // of *work

	ctx    context.Context // of what the queue does by itself
	cancel context.CancelFunc
}

// commit stages and commits a batch of its own. What stage returns an error for is given
// up.
func (q *committer) commit(ctx context.Context, stage func(tx *Tx) error) error {
	q.mu.Lock()
	err := q.usable()
	q.mu.Unlock()
	if err != nil {
		return err
	}
	w, _ := q.batches.Get().(*work)
	if w == nil {
		w = &work{}
		w.tx.q, w.tx.batch, w.tx.own = q, &w.batch, true
	}
	w.batch.Enlist(q, (*participant)(&w.tx))
	over := false
	defer func() {
		if !over { // a panic gives back what was claimed, and the memory is not used again
			w.batch.Abort(nil)
		}
	}()
	if err = stage(&w.tx); err != nil {
		w.batch.Abort(err)
	} else {
		err = q.actor.Commit(ctx, &w.batch)
		q.landed(&w.tx, err)
	}
	// Whatever became of it, its memory isn't used any more.
	w.batch.Reset()
	w.tx.reset()
	over = true
	q.batches.Put(w)
	return err
}

// landed follows a commit of the queue's own, which is durable unless there is an error.
func (q *committer) landed(tx *Tx, err error) {
	for err == nil {
		old := q.durable.Load()
		if old >= tx.landed || q.durable.CompareAndSwap(old, tx.landed) {
			break
		}
	}
	tell(tx.told, err)
}

// A work is a batch of the queue's own, and the memory that it takes.
type work struct {
	batch batch.Batch
	tx    Tx
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
	m, grown := q.numbers.landing, int64(0)
	for i := range tx.adds {
		a := &tx.adds[i]
		// Ids that batches showed to callers are skipped, whether they land or not.
		m.next = max(m.next, a.it.id+1, q.numbers.shown)
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
	q.numbers.stage(b, layout.AppendQueueMetadata(key[:0]), m)
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
	return tx.keys.stage(b, q.actor)
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
	tx.q.numbers.begin()
	tx.grown = 0
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
	q.numbers.landed()
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
	q.keys.commit(&tx.keys)
	tx.end()
	tx.roomMade()
	if !tx.own {
		q.tellLater(tx.told)
	}
	q.mu.Unlock()
	q.bell.arm()
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
		if t, waited := q.answers.take(it.id, c.answer); waited {
			tx.told = append(tx.told, t)
		}
		return
	}
	if it.lease = c.to; c.rec != nil {
		it.size = len(c.rec)
		q.index.keep(it, c.rec)
	}
	it.remember(c)
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
		q.answers.give(a.it.id, answer{err: errors.Join(ErrNoAnswer, reason)})
	}
	q.keys.abort(&tx.keys)
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
	q.bell.arm()
}

// tellLater is tell for a caller's batch: the queue isn't told whether and when that gets
// durable. With the next sync it is.
//
// +checklocks:q.mu
func (q *committer) tellLater(all []told) {
	switch {
	case len(all) == 0:
	case !q.works.Enter():
		tell(all, ErrClosed)
	default:
		go func() {
			defer q.works.Leave()
			err := q.actor.Sync(q.ctx)
			if q.ctx.Err() != nil {
				err = ErrClosed
			}
			tell(all, err)
		}()
	}
}

// retryKeys is commit, again and again while another batch is about to use a key: what comes
// of that decides.
func (q *committer) retryKeys(ctx context.Context, stage func(tx *Tx) error) error {
	for {
		err := q.commit(ctx, stage)
		var busy *busyKey
		if !errors.As(err, &busy) {
			return err
		}
		if _, err := await(ctx, &q.contents, busy.settled, nil); err != nil {
			return err
		}
	}
}
