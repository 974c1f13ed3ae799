package queue

import (
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// spareRoom leaves to memory alone what the actor has no room for: leases, that they were
// given back, and dead letters. An actor that is full must be able to work off its
// messages: else nothing would ever make room.
//
// +checklocks:tx.q.mu
func (tx *Tx) spareRoom() {
	over := tx.growth()
	if over <= 0 {
		return
	}
	if over -= tx.q.room(); over <= 0 {
		return
	}
	// What has failed goes first.
	for _, c := range tx.changes {
		if over > 0 && !c.put {
			over -= c.shorten()
		}
	}
	if over <= 0 {
		return
	}
	for _, c := range tx.changes {
		if n := len(c.rec) - c.it.size; !c.put && !c.remove && n > 0 {
			over -= int64(n)
			c.leaveStored()
		}
	}
	for _, c := range slices.Backward(tx.changes) {
		if c.grave != nil && !c.put && len(c.grave.rec) > c.it.size && over > 0 {
			over -= tx.exhume(c)
		}
	}
}

// growth is what the writes of tx add to what the actor stores, in bytes.
//
// +checklocks:tx.q.mu
func (tx *Tx) growth() (n int64) {
	key := int64(messageKeySize(tx.q.actor.Layout()) + batch.WrapperBytes)
	for _, c := range tx.changes {
		switch {
		case c.it.line == nil: // it is among the adds
		case c.remove:
			n -= key + int64(c.it.size)
		case c.rec != nil:
			n += int64(len(c.rec) - c.it.size)
		}
	}
	for i := range tx.adds {
		if value := tx.adds[i].value(); value != nil {
			n += key + int64(len(value))
		}
	}
	return n
}

// shorten leaves to memory which attempts have failed, if the value to be stored is longer than
// the one that is, and returns how much room that saves.
func (c *change) shorten() int64 {
	switch rec := &c.rec; {
	case c.grave != nil && len(c.grave.rec) > c.it.size:
		was := c.grave.size
		if rec, p := shorter(c.grave.rec); p != nil {
			c.grave.rec, c.grave.size, c.grave.past = rec, len(rec), p
		}
		return int64(was - c.grave.size)
	case !c.remove && len(*rec) > c.it.size:
		was := len(*rec)
		*rec, _ = shorter(*rec) // what is known is in c.past
		return int64(was - len(*rec))
	}
	return 0
}

// leaveStored leaves what is stored of the message as it is.
func (c *change) leaveStored() {
	if c.rec = nil; c.granted != nil {
		c.granted.stored = false
	}
}

// exhume undoes bury, and returns how much room that saves. The message then waits, in
// memory alone, until there is room for the dead letter, and isn't received.
//
// +checklocks:tx.q.mu
func (tx *Tx) exhume(c *change) int64 {
	q, grave := tx.q, c.grave
	saved := int64(len(grave.rec) - c.it.size)
	tx.adds = slices.DeleteFunc(tx.adds, func(a added) bool { return a.it == grave })
	tx.free--
	q.answers.give(grave.id, answer{err: fmt.Errorf("%w: it was not stored", ErrNoAnswer)})
	c.leaveStored()
	c.remove, c.answer, c.grave, c.metric = false, answer{}, nil, c.alive
	c.to = lease{deliveries: c.to.deliveries} // c.past says why it failed
	tx.spared = true
	// The last one counts, and not the smallest: with less room the same would happen.
	q.retry.lacking = saved
	return saved
}

// roomMade has dead letters that wait for room tried again if a commit has made enough,
// and forgets the ids of those that had none.
//
// +checklocks:tx.q.mu
func (tx *Tx) roomMade() {
	q := tx.q
	if tx.spared {
		q.rewind()
	}
	q.retry.roomMade(q.room())
}
