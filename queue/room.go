package queue

import (
	"fmt"
	"slices"
)

// spareRoom leaves to memory alone what the actor has no room for: leases, that they were
// given back, and dead letters. An actor that is full must be able to work off its
// messages: else nothing would ever make room.
//
// +checklocks:d.of.mu
func (d *draft) spareRoom() {
	over := d.growth()
	if over <= 0 {
		return
	}
	if over -= d.of.room(); over <= 0 {
		return
	}
	// What has failed goes first.
	for _, c := range d.changes {
		if over > 0 && !c.put {
			over -= c.shorten()
		}
	}
	if over <= 0 {
		return
	}
	for _, c := range d.changes {
		if n := len(c.rec) - c.it.size; !c.put && !c.remove && !c.replaced && n > 0 {
			over -= int64(n)
			c.leaveStored()
		}
	}
	for _, c := range slices.Backward(d.changes) {
		if c.grave != nil && !c.put && len(c.grave.rec) > c.it.size && over > 0 {
			over -= d.exhume(c)
		}
	}
}

// exhume undoes bury, and returns how much room that saves. The message then waits, in
// memory alone, until there is room for the dead letter, and isn't received.
//
// +checklocks:d.of.mu
func (d *draft) exhume(c *change) int64 {
	grave := c.grave
	saved := int64(len(grave.rec) - c.it.size)
	d.adds = slices.DeleteFunc(d.adds, func(a added) bool { return a.it == grave })
	d.free--
	d.of.answers.give(grave.id, answer{err: fmt.Errorf("%w: it was not stored", ErrNoAnswer)})
	c.leaveStored()
	c.remove, c.answer, c.grave, c.metric = false, answer{}, nil, c.alive
	c.to = lease{deliveries: c.to.deliveries} // c.past says why it failed
	d.spared = true
	// The last one counts, and not the smallest: with less room the same would happen.
	d.of.retry.lacking = saved
	return saved
}
