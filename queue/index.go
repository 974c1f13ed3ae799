package queue

import (
	"slices"
)

// An index is the messages of a queue. Each stands in one order, by what happens to it
// next; the visible ones in that of their name and in that of all. One that is claimed
// stands in none. So a receive costs the same whatever waits behind it.
type index struct {
	byID  map[ID]*item
	lines map[string]*line
	all   order // the visible ones
	timed order // those that become visible, by time
	dying order // those that become dead letters

	debounced map[debounceKey]*item // the newest of each key that may be replaced; nil before the first

	seen         int64 // when the clock was last looked at, Unix ms
	memory, room int   // bytes of values in memory, and how many there may be
}

func (x *index) init(room int) {
	x.byID, x.lines, x.room = map[ID]*item{}, map[string]*line{}, room
	x.timed.first, x.dying.first = byTime, byID
}

// observe takes note of the time, and returns by how much the clock was set back since the
// last time, in ms. Leases and delays end sooner by as much: each is a duration, of which
// what is left stays. So they end in the same order.
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

// enter adds a message, which is in no order yet.
func (x *index) enter(it *item, name string) {
	l := x.lines[name]
	if l == nil {
		l = &line{name: name}
		x.lines[name] = l
	}
	l.total++
	it.line = l
	x.byID[it.id] = it
	if it.debounce != nil {
		if x.debounced == nil {
			x.debounced = map[debounceKey]*item{}
		}
		x.debounced[*it.debounce] = it
	}
	rec := it.rec
	it.rec = nil
	x.keep(it, rec)
}

// leave removes a message that is in no order.
func (x *index) leave(it *item) {
	x.keep(it, nil)
	x.handedOut(it)
	delete(x.byID, it.id)
	if it.line.total--; it.line.total == 0 {
		delete(x.lines, it.line.name)
	}
}

// handedOut notes that a message isn't replaced any more.
func (x *index) handedOut(it *item) {
	if it.debounce == nil {
		return
	}
	if x.debounced[*it.debounce] == it {
		delete(x.debounced, *it.debounce)
	}
	it.debounce = nil
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
		x.timed.push(it)
	case mustDie:
		it.where = dying
		x.dying.push(it)
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

// first returns the first visible item, of those names if there are any; nil without one.
func (x *index) first(names []string) (it *item) {
	if len(names) == 0 {
		return x.all.top
	}
	for _, name := range names {
		if l := x.lines[name]; l != nil {
			if top := l.ready.top; top != nil && (it == nil || top.before(it)) {
				it = top
			}
		}
	}
	return it
}

// firstOf returns the first of those messages that is visible and of the names, of any if there are none; nil without one.
func (x *index) firstOf(ids []ID, names []string) *item {
	for _, id := range ids {
		it := x.byID[id]
		if it != nil && it.where == visible && (len(names) == 0 || slices.Contains(names, it.line.name)) {
			return it
		}
	}
	return nil
}

// other returns the name of a visible message that has none of the names, and whether there
// is one.
func (x *index) other(names []string) (string, bool) {
	for name, l := range x.lines {
		if l.ready.top != nil && !slices.Contains(names, name) {
			return name, true
		}
	}
	return "", false
}
