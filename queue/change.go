package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// A change is what a batch does to a message that is stored, or that the batch adds.
type change struct {
	by       *draft // which has it
	it       *item
	remove   bool
	put      bool   // the write is in what is being committed
	rec      []byte // the value to be stored, nil: what is stored, or added, stays
	grave    *item  // the dead letter that takes its place, nil: none does
	doomed   bool   // it becomes a dead letter, now or when there is room, however often it was handed out
	to       lease  // what follows, unless the message is removed
	past     *past  // what is then known besides, nil: nothing that rec doesn't say
	replaced bool   // by a newer one: what is stored must be that
	priority int8
	back     bool   // it was received and given back, to be handed out again at once
	name     string // of a message that is back
	// answer goes to those that wait for it, if the message is removed.
	answer  answer
	granted *grant          // it is handed out, nil: it isn't
	waited  time.Duration   // how long it was there then
	metric  *metrics.Metric // what else happens to it, nil for nothing
	alive   *metrics.Metric // the same, should there be no room for the grave
}

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
func (all additions) first(names []string) (first *item) {
	for i := range all {
		a := &all[i]
		if a.it.state == ready && a.it.claim == nil && !a.dead && (len(names) == 0 || slices.Contains(names, a.name)) &&
			(first == nil || a.it.before(first)) {
			first = a.it
		}
	}
	return first
}

// lease stages what becomes of the message, which is r now. If that can't be stored, since
// readers must not see it or the value has no room, memory alone knows.
//
// +checklocks:c.by.of.mu
func (c *change) lease(r *record, to lease, now int64) {
	in := &c.by.of.settings
	c.to, c.rec, c.back, c.past = to, nil, false, r.past.kept()
	if in.opts.Plain {
		return
	}
	r.setLease(to, now)
	r.fit(in.tells, in.most)
	if r.size() <= in.limit {
		c.rec = r.encode()
	}
}

// read returns what is known of a message that is claimed. The body is a part of the stored
// value, and must not be changed.
func (c *change) read(ctx context.Context) (r record, err error) {
	// The same batch may have received it: then it is not stored as it will be.
	value := c.rec
	if value == nil {
		value, err = c.by.of.value(ctx, c.it)
	}
	if err == nil {
		r, err = parseRecord(value)
	}
	if p := cmp.Or(c.past, c.it.past); err == nil && p != nil {
		r.past = *p
	}
	return r, err
}

// land does what the change says, which the commit of that number has stored. It returns what the callers that wait for the message
// are to be told, if there are any.
//
// +checklocks:c.by.of.mu
func (c *change) land(seq uint64) (t told, waited bool) {
	in, it := c.by.of, c.it
	it.claim = nil
	if c.granted != nil {
		c.granted.landed.Store(seq)
		in.meter.Count(metricReceived, 1)
		in.meter.Observe(metricWait, c.waited)
	}
	if c.metric != nil {
		in.meter.Count(c.metric, 1)
	}
	if c.remove {
		in.index.leave(it)
		return in.answers.take(it.id, c.answer)
	}
	it.doomed, it.priority = it.doomed || c.doomed, c.priority
	if c.to.deliveries > 0 {
		in.index.handedOut(it)
	}
	if it.lease = c.to; c.rec != nil {
		it.size = len(c.rec)
		in.index.keep(it, c.rec)
	}
	switch {
	case tellsFailures(c.rec):
		it.past = nil
	case c.past != nil:
		it.past = c.past
	}
	in.put(it)
	return told{}, false
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
