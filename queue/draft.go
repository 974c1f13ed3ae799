package queue

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A draft is what one open batch has claimed of the contents, and what it is about to do with that. The lock of the contents guards
// it.
type draft struct {
	of      *contents
	own     bool // the batch is the queue's: no caller was told of its ids before the commit
	begun   bool // something was to be staged; d is of.open[place]
	place   int
	adds    additions
	free    int // adds that don't count against the limit: dead letters
	changes []*change
	back    bool          // one of them is back, or was
	bad     []Quarantined // to be removed
	keys    keyClaims     // that the adds take
	spared  bool          // a dead letter had no room

	spare change // which a draft needs every time
}

// begin lets the contents know of d.
//
// +checklocks:d.of.mu
func (d *draft) begin() {
	if !d.begun {
		d.begun, d.place = true, len(d.of.open)
		d.of.open = append(d.of.open, d)
	}
}

// end lets the contents forget d, which is settled.
//
// +checklocks:d.of.mu
func (d *draft) end() {
	open := d.of.open
	last := len(open) - 1
	open[d.place], open[last].place = open[last], d.place
	open[last] = nil
	d.of.open = open[:last]
	d.begun = false
	d.of.reserved -= len(d.adds) - d.free
	d.keys.end()
}

// reset empties d. It keeps memory for work of the usual size.
func (d *draft) reset() {
	if cap(d.adds)+cap(d.changes) > maxKept {
		d.adds, d.changes = nil, nil
	}
	clear(d.adds[:cap(d.adds)])
	clear(d.changes[:cap(d.changes)])
	*d = draft{of: d.of, own: d.own, adds: d.adds[:0], changes: d.changes[:0]}
}

// find returns a message that is stored, or that d adds; nil without one.
//
// +checklocks:d.of.mu
func (d *draft) find(id ID) *item { return cmp.Or(d.of.index.byID[id], d.adds.find(id)) }

// claim takes a message for d, or returns the change that d is about to make already.
//
// +checklocks:d.of.mu
func (d *draft) claim(it *item) (*change, error) {
	if c := it.claim; c != nil {
		if c.by != d {
			return nil, ErrBusy
		}
		return c, nil
	}
	c := &d.spare
	if c.it != nil {
		c = new(change)
	}
	*c = change{by: d, it: it, to: it.lease, priority: it.priority}
	d.of.index.take(it)
	it.claim = c
	d.changes = append(d.changes, c)
	return c, nil
}

// unclaim forgets a change.
//
// +checklocks:d.of.mu
func (d *draft) unclaim(c *change) {
	it := c.it
	d.forget(c)
	d.of.put(it)
}

// forget takes a change back, and leaves its message in no order.
//
// +checklocks:d.of.mu
func (d *draft) forget(c *change) {
	d.changes = slices.DeleteFunc(d.changes, func(o *change) bool { return o == c })
	c.it.claim = nil
	*c = change{}
}

// setAside gives up a change of a message that can't be read, and the message with it.
func (d *draft) setAside(c *change, err error) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	it := c.it
	d.forget(c)
	d.of.putAside(it, fmt.Errorf("it can't be read: %w", err))
}

// add reserves an id for a message and stages it. Dead letters don't count against the
// limit.
//
// +checklocks:d.of.mu
func (d *draft) add(r *record, dead bool) (*item, error) {
	id, err := d.of.numbers.take(!d.own)
	if err != nil {
		return nil, err
	}
	it := &item{id: id, created: r.created, priority: r.priority, rec: r.encode(), lease: r.lease(d.of.visibility()), debounce: r.debounce.kept()}
	it.size = len(it.rec)
	if !r.past.failed() {
		it.past = r.past.kept()
	}
	d.adds = append(d.adds, added{it: it, name: r.name, dead: dead})
	if dead {
		d.free++
	} else {
		d.of.reserved++
	}
	return it, nil
}

// admit adds a message if there is room.
//
// +checklocks:d.of.mu
func (d *draft) admit(r *record) (*item, error) {
	n := len(d.of.index.byID) + d.of.reserved
	if limit := d.of.opts.MaxMessages; limit >= 0 && n >= limit && n-d.removed() >= limit {
		return nil, &FullError{limit}
	}
	return d.add(r, false)
}

// removed returns how many messages d removes, in whose place others may come.
func (d *draft) removed() (n int) {
	for _, c := range d.changes {
		if c.remove && c.grave == nil {
			n++
		}
	}
	return n
}

// first claims the first visible message: one that is stored, or that d gives back or adds;
// nil without one.
func (d *draft) first(o *ReceiveOptions) (*change, error) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	d.of.due()
	names := o.Names
	if len(o.IDs) > 0 {
		it := d.of.index.firstOf(o.IDs, names)
		if it == nil {
			return nil, nil
		}
		return d.claim(it)
	}
	it := d.of.index.first(names)
	if own := d.adds.first(names); own != nil && (it == nil || own.before(it)) {
		it = own
	}
	if c := d.firstBack(names); c != nil && (it == nil || c.it.before(it)) {
		return c, nil
	}
	if it == nil {
		return nil, nil
	}
	return d.claim(it)
}

// leave leaves a message that first has returned to other receivers, or to d again.
func (d *draft) leave(c *change) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	if !c.back {
		d.unclaim(c)
	}
}

// firstBack returns the first message that d has received and given back, nil without one.
//
// +checklocks:d.of.mu
func (d *draft) firstBack(names []string) (first *change) {
	if !d.back {
		return nil
	}
	for _, c := range d.changes {
		if c.back && !c.remove && (first == nil || c.it.before(first.it)) && (len(names) == 0 || slices.Contains(names, c.name)) {
			first = c
		}
	}
	return first
}

// held claims a message, if the receipt is good; fresh says that d did nothing to the
// message before.
//
// +checklocks:d.of.mu
func (d *draft) held(r Receipt) (c *change, fresh bool, err error) {
	d.of.due()
	it := d.find(r.ID)
	if it == nil {
		return nil, false, ErrGone
	}
	at := &it.lease
	if c := it.claim; c != nil {
		switch {
		case c.by != d:
			return nil, false, ErrBusy
		case c.remove:
			return nil, false, ErrGone
		}
		at = &c.to
	}
	if !at.fits(r) {
		return nil, false, ErrLeaseOver
	}
	fresh = it.claim == nil
	c, err = d.claim(it)
	return c, fresh, err
}

// remove stages that a message is removed, or what is quarantined under its id.
//
// +checklocks:d.of.mu
func (d *draft) remove(id ID, onlyReady bool) error {
	it := d.find(id)
	if it == nil {
		return d.removeBad(appendMessageKey(d.of.actor.Layout(), nil, id))
	}
	if onlyReady {
		if d.of.due(); it.state != ready {
			return ErrBusy
		}
	}
	c, err := d.claim(it)
	if err != nil {
		return err
	}
	if c.remove {
		return ErrGone
	}
	c.remove, c.answer, c.metric = true, answer{err: fmt.Errorf("%w: it was deleted", ErrNoAnswer)}, metricDeleted
	return nil
}

// removeBad stages that what is quarantined under a key is removed. What is there is read by the
// store: nothing is known about it.
//
// +checklocks:d.of.mu
func (d *draft) removeBad(key []byte) error {
	i := slices.IndexFunc(d.of.bad, func(b Quarantined) bool { return bytes.Equal(b.Key, key) })
	if i < 0 {
		return ErrGone
	}
	d.bad = append(d.bad, d.of.bad[i])
	d.of.bad = slices.Delete(slices.Clone(d.of.bad), i, i+1)
	return nil
}

// bury stages that a message becomes a dead letter, behind all others: a new message
// takes its place. It reports false when the value has no room for the longer name,
// or the queue no id: the message then stays what it is.
//
// +checklocks:d.of.mu
func (d *draft) bury(c *change, r *record) bool {
	dead := record{name: r.name + d.of.opts.DeadLetter, body: r.body, created: r.created, past: r.past, priority: r.priority}
	if !d.of.opts.Plain {
		dead.setLease(lease{deliveries: c.to.deliveries}, 0)
	}
	dead.fit(d.of.tells, d.of.most)
	if dead.size() > d.of.limit {
		c.it.stays = true
		return false
	}
	it, err := d.add(&dead, true)
	if err != nil {
		c.it.stays = true
		return false
	}
	it.deliveries = c.to.deliveries
	if !dead.past.failed() { // there was no place for it
		it.past = r.past.kept()
	}
	c.remove, c.grave, c.metric, c.alive, c.past = true, it, metricDead, c.metric, r.past.kept()
	c.answer = answer{err: fmt.Errorf("%w: it became the dead letter %s", ErrNoAnswer, it.id)}
	return true
}

// growth is what the writes of d add to what the actor stores, in bytes.
//
// +checklocks:d.of.mu
func (d *draft) growth() (n int64) {
	key := int64(messageKeySize(d.of.actor.Layout()) + batch.WrapperBytes)
	for _, c := range d.changes {
		switch {
		case c.it.line == nil: // it is among the adds
		case c.remove:
			n -= key + int64(c.it.size)
		case c.rec != nil:
			n += int64(len(c.rec) - c.it.size)
		}
	}
	for i := range d.adds {
		if value := d.adds[i].value(); value != nil {
			n += key + int64(len(value))
		}
	}
	return n
}

// maxKept bounds what a draft, and a landing, keep when they aren't used.
const maxKept = 256
