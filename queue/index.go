package queue

import "container/heap"

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
}

// An item is a stored message in memory.
type item struct {
	id      ID
	line    *line
	created int64
	size    int    // of the stored value, in bytes
	rec     []byte // the stored value, nil when it must be read; never changed
	lease

	claim *change // what a batch is about to do with it, nil for nothing
	stays bool    // it can't become a dead letter
	// in is the heap that it is in, by the order of ids or of times, with its place;
	// byAll is its place in the heap of all visible ones.
	in    *itemHeap
	place int
	byAll int
}

// A line is the messages of one name.
type line struct {
	name  string
	total int      // messages, visible or not
	ready itemHeap // the visible ones, by id
}

// An index is the messages of a queue. Each is in one heap, by what happens to it next;
// the visible ones in that of their name and in that of all. One that is claimed is in
// none. So a receive costs the logarithm of what is visible.
type index struct {
	byID  map[ID]*item
	lines map[string]*line
	all   itemHeap // the visible ones, by id
	timed itemHeap // those that become visible, by time
	dying itemHeap // those that become dead letters, by id

	memory, room int // bytes of values in memory, and how many there may be
}

func (x *index) init(room int) {
	x.byID, x.lines, x.room = map[ID]*item{}, map[string]*line{}, room
	x.all.all, x.timed.timed = true, true
}

// enter adds a message, which is in no heap yet.
func (x *index) enter(it *item, name string) {
	l := x.lines[name]
	if l == nil {
		l = &line{name: name}
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

// put puts an item into the heap of what happens to it next, and reports whether it is
// visible.
func (x *index) put(it *item, dying bool) (visible bool) {
	switch {
	case it.state != ready:
		heap.Push(&x.timed, it)
	case dying:
		heap.Push(&x.dying, it)
	default:
		heap.Push(&it.line.ready, it)
		heap.Push(&x.all, it)
		return true
	}
	return false
}

// take takes an item out of the heaps.
func (x *index) take(it *item) {
	if it.in == &it.line.ready {
		heap.Remove(&x.all, it.byAll)
	}
	if it.in != nil {
		heap.Remove(it.in, it.place)
	}
}

// first returns the visible item with the lowest id, of those names if there are any; nil
// when there is none.
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

// An itemHeap is a heap of items that know their places. The zero value is one by id.
type itemHeap struct {
	items []*item
	timed bool // by time, then by id
	all   bool // the places are byAll
}

func (h *itemHeap) top() *item {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// Len is heap.Interface's.
func (h *itemHeap) Len() int { return len(h.items) }

// Less is heap.Interface's.
func (h *itemHeap) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	if h.timed && a.at != b.at {
		return a.at < b.at
	}
	return a.id < b.id
}

// Swap is heap.Interface's.
func (h *itemHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.seat(i)
	h.seat(j)
}

// Push is heap.Interface's.
func (h *itemHeap) Push(x any) {
	h.items = append(h.items, x.(*item))
	h.seat(len(h.items) - 1)
}

// Pop is heap.Interface's.
func (h *itemHeap) Pop() any {
	n := len(h.items) - 1
	it := h.items[n]
	h.items[n] = nil
	h.items = h.items[:n]
	if !h.all {
		it.in = nil
	}
	return it
}

// seat tells an item its place.
func (h *itemHeap) seat(i int) {
	if it := h.items[i]; h.all {
		it.byAll = i
	} else {
		it.in, it.place = h, i
	}
}
