package queue

import (
	"container/heap"
	"math"
	"slices"
)

// A state is where a message stands between being stored and being settled.
type state uint8

const (
	ready   state = iota // visible
	delayed              // visible later
	leased               // visible later unless it is settled before
)

var stateNames = [...]string{"ready", "delayed", "leased"}

// A lease is what says when a message is visible, and to whom it belongs until then.
type lease struct {
	state      state
	at         int64  // visible from then on, Unix ms; of no meaning when ready
	deliveries uint32 // how often it was handed out
	grant      *grant // of the last time, nil if that was before the queue was opened
}

// An item is a stored message in memory.
type item struct {
	id      ID
	line    *line // nil before it has landed
	created int64
	size    int    // of the stored value, in bytes
	rec     []byte // the stored value, nil when it must be read; never changed
	lease

	claim *change // what a batch is about to do with it, nil for nothing
	stays bool    // it can't become a dead letter
	where where
	seats [seatKinds]int // its places; see order
}

// where says in which order an item stands.
type where uint8

const (
	nowhere where = iota // claimed, or not entered
	visible              // in that of its line, and in that of all
	timed
	dying
)

// A seatKind is one of the places that an item has.
type seatKind uint8

const (
	seatLine seatKind = iota
	seatAll
	seatOther
	seatKinds
)

// A line is the messages of one name.
type line struct {
	name  string
	total int   // messages, visible or not
	ready order // the visible ones
}

// An index is the messages of a queue. Each stands in one order, by what happens to it
// next; the visible ones in that of their name and in that of all. One that is claimed
// stands in none. So a receive costs the same whatever waits behind it.
type index struct {
	byID  map[ID]*item
	lines map[string]*line
	all   order    // the visible ones
	timed itemHeap // those that become visible, by time
	dying itemHeap // those that become dead letters, by id

	seen         int64 // when the clock was last looked at, Unix ms
	memory, room int   // bytes of values in memory, and how many there may be
}

func (x *index) init(room int) {
	x.byID, x.lines, x.room = map[ID]*item{}, map[string]*line{}, room
	x.all.init(seatAll)
	x.timed.kind, x.dying.kind, x.timed.timed = seatOther, seatOther, true
}

// observe takes note of the time, and returns by how much the clock was set back since the
// last time, in ms. Leases and delays end sooner by as much: each is a duration, of which
// what is left stays.
func (x *index) observe(now int64) (back int64) {
	back, x.seen = x.seen-now, now
	if back <= 0 {
		return back
	}
	for _, it := range x.byID {
		if it.state != ready {
			it.at = sooner(it.at, back)
		}
	}
	return back
}

// sooner returns the time that is back before at, both in ms; never stays never.
func sooner(at, back int64) int64 {
	if at == math.MaxInt64 || back <= 0 {
		return at
	}
	return at - back
}

// enter adds a message, which is in no heap yet.
func (x *index) enter(it *item, name string) {
	l := x.lines[name]
	if l == nil {
		l = &line{name: name}
		l.ready.init(seatLine)
		x.lines[name] = l
	}
	l.total++
	it.line = l
	x.byID[it.id] = it
	rec := it.rec
	it.rec = nil
	x.keep(it, rec)
}

// leave removes a message that is in no heap.
func (x *index) leave(it *item) {
	x.keep(it, nil)
	delete(x.byID, it.id)
	if it.line.total--; it.line.total == 0 {
		delete(x.lines, it.line.name)
	}
}

// keep has the item keep its value in memory, if there is room, instead of what it has.
func (x *index) keep(it *item, rec []byte) {
	x.memory -= len(it.rec)
	if it.rec = nil; rec != nil && len(rec) <= x.room-x.memory {
		it.rec = rec
		x.memory += len(rec)
	}
}

// put puts an item into the order of what happens to it next, and reports whether it is
// visible.
func (x *index) put(it *item, mustDie bool) bool {
	switch {
	case it.state != ready:
		it.where = timed
		heap.Push(&x.timed, it)
	case mustDie:
		it.where = dying
		heap.Push(&x.dying, it)
	default:
		it.where = visible
		it.line.ready.push(it)
		x.all.push(it)
	}
	return it.where == visible
}

// take takes an item out of its order.
func (x *index) take(it *item) {
	switch it.where {
	case visible:
		it.line.ready.remove(it)
		x.all.remove(it)
	case timed:
		x.timed.remove(it)
	case dying:
		x.dying.remove(it)
	}
	it.where = nowhere
}

// first returns the visible item with the lowest id, of those names if there are any; nil
// without one.
func (x *index) first(names []string) (it *item) {
	if len(names) == 0 {
		return x.all.top()
	}
	for _, name := range names {
		if l := x.lines[name]; l != nil {
			if top := l.ready.top(); top != nil && (it == nil || top.id < it.id) {
				it = top
			}
		}
	}
	return it
}

// other returns the name of a visible message that has none of the names, and whether there
// is one.
func (x *index) other(names []string) (string, bool) {
	for name, l := range x.lines {
		if l.ready.top() != nil && !slices.Contains(names, name) {
			return name, true
		}
	}
	return "", false
}
