package queue

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// A landing is a commit of a Tx that is under way. The lock of the contents guards it.
//
// Writes are not put into the batch as they come, but when it is sealed, one for each message: what is received and completed in one
// batch is a single delete.
type landing struct {
	entry  batch.Entry // while a commit is under way
	grown  int64       // how many messages more there are by what is being committed
	landed uint64      // the number of the commit
	told   []told      // answers that wait for stable storage
	writes []write
	meta   [metadataSize]byte // the value of the metadata
}

// reset empties l. It keeps memory for work of the usual size.
func (l *landing) reset() {
	if cap(l.writes) > maxKept {
		l.writes = nil
	}
	clear(l.writes[:cap(l.writes)])
	*l = landing{entry: l.entry, writes: l.writes[:0]}
}

// A participant is a Tx as its batch sees it.
type participant Tx

// A write is one operation on a message's key.
type write struct {
	id    ID
	value []byte // nil: delete
	prior batch.Prior
}

// Late stages the writes: all of them again, if it is called again.
func (p *participant) Late(b *batch.Batch) error {
	q := p.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.begun {
		return nil
	}
	if err := q.usable(); err != nil {
		return err // a Queue opened since doesn't know what is staged here
	}
	p.seal(b)
	p.spareRoom()
	m := q.numbers.landing
	grown := p.collect(b, &m) - int64(len(p.bad))
	m.size += grown - p.grown
	p.grown = grown
	// Each key lies below those before it, which spares the store a look at all of them;
	// and if a batch lands in part, the next id is there before the message.
	layout, key := q.actor.Layout(), [maxMessageKey]byte{}
	q.numbers.stage(b, layout.AppendQueueMetadata(key[:0]), m, p.meta[:0])
	slices.SortFunc(p.writes, func(a, b write) int { return cmp.Compare(b.id, a.id) })
	for _, w := range p.writes {
		if k := appendMessageKey(layout, key[:0], w.id); w.value == nil {
			b.DeletePrior(k, w.prior)
		} else {
			b.PutPrior(k, w.value, w.prior)
		}
	}
	for _, bad := range p.bad {
		b.Delete(bad.Key) // what is there is the store's to find out
	}
	return p.keys.stage(b, q.actor)
}

// collect finds out what is to be written of messages, and how many more there are then. It takes note in m of the ids that are
// given, and tells b when the actor must be awake.
//
// +checklocks:p.q.mu
func (p *participant) collect(b *batch.Batch, m *metadata) (grown int64) {
	writes := p.writes[:0]
	for i := range p.adds {
		a := &p.adds[i]
		// Ids that batches showed to callers are skipped, whether they land or not.
		m.next = max(m.next, a.it.id+1, p.q.numbers.shown)
		value := a.value()
		if value != nil {
			grown++
			wakeBy(b, &a.it.lease)
		}
		if value != nil || a.put {
			writes = append(writes, write{a.it.id, value, batch.Absent})
			a.put = true
		}
	}
	for _, c := range p.changes {
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
	p.writes = writes
	return grown
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
// +checklocks:p.q.mu
func (p *participant) seal(b *batch.Batch) {
	if first, _ := p.entry.Enter(b, &p.q.works); !first { // the gate is open: see Late
		return
	}
	p.q.numbers.begin()
	p.grown = 0
	for _, c := range p.changes {
		c.put = false
	}
	for i := range p.adds {
		p.adds[i].put = false
	}
}

// Landed makes the index follow the store.
func (p *participant) Landed() {
	q := p.q
	q.mu.Lock()
	if !p.begun {
		q.mu.Unlock()
		return
	}
	p.landed = q.actor.Seq()
	q.numbers.landed()
	for _, a := range p.adds {
		if q.index.enter(a.it, a.name); a.it.claim == nil {
			q.put(a.it)
		}
	}
	q.meter.Count(metricEnqueued, int64(len(p.adds)))
	for _, c := range p.changes {
		if t, waited := c.land(p.landed); waited {
			p.told = append(p.told, t)
		}
	}
	q.meter.Count(metricDeleted, int64(len(p.bad)))
	q.keys.commit(&p.keys)
	p.end()
	if p.spared {
		q.rewind()
	}
	q.retry.roomMade(q.room())
	if !p.own {
		q.tellLater(p.told)
	}
	q.mu.Unlock()
	q.bell.arm()
}

// Failed gives back what was claimed.
func (p *participant) Failed(reason error, partly bool) {
	q := p.q
	q.mu.Lock()
	if !p.begun {
		q.mu.Unlock()
		return
	}
	for _, c := range p.changes {
		c.it.claim = nil
		q.put(c.it)
	}
	for _, a := range p.adds {
		q.answers.give(a.it.id, answer{err: errors.Join(ErrNoAnswer, reason)})
	}
	q.keys.abort(&p.keys)
	q.bad = append(q.bad, p.bad...)
	if partly && q.failed == nil {
		q.failed = errors.Join(ErrStale, reason)
	}
	p.end()
	q.rewind()
	if q.failed != nil || q.actor.Err() != nil {
		q.wakeAll() // to be told
	}
	q.mu.Unlock()
	q.bell.arm()
}
