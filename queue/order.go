package queue

import "container/heap"

// An item is a stored message in memory.
type item struct {
	id      ID
	line    *line // nil before it has landed
	created int64
	size    int    // of the stored value, in bytes
	rec     []byte // the stored value, nil when it must be read; never changed
	past    *past  // what the stored value doesn't say, nil for nothing; never changed
	lease

	claim *change // what a batch is about to do with it, nil for nothing
	stays bool    // it can't become a dead letter
	where where
	seats [seatKinds]int // its places; see order
}

// before says whether a batch that adds one of two messages, or both, hands it out first.
func (it *item) before(other *item) bool {
	if own := it.line == nil; own != (other.line == nil) {
		return !own
	}
	return it.id < other.id
}

// remember keeps what is known besides the value that a change has stored.
func (it *item) remember(c *change) {
	switch stored := len(c.rec) > 0 && c.rec[0] == failedVersion; {
	case stored:
		it.past = nil
	case c.past != nil:
		it.past = c.past
	}
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

// An order is items by their ids, made for a queue: most come in order at the end, and
// leave at the beginning, both at no cost that grows with their number. Those that come
// back, behind which others stand already, are in a heap.
//
// The place of an item is the number of its seat in the tail, counted from the first that
// there ever was, or −1 − its index in the heap.
type order struct {
	kind  seatKind
	tail  []*item // ascending, nil where one has left; the first is never nil
	first int     // the place of tail[0]
	holes int     // nils in tail
	last  ID      // of the newest that came at the end, which may have left
	back  itemHeap
}

func (o *order) init(kind seatKind) { o.kind, o.back.kind = kind, kind }

// top returns the item with the lowest id, nil without one.
func (o *order) top() *item {
	it := o.back.top()
	if len(o.tail) > 0 && (it == nil || o.tail[0].id < it.id) {
		return o.tail[0]
	}
	return it
}

func (o *order) push(it *item) {
	if len(o.tail) > 0 && it.id <= o.last {
		heap.Push(&o.back, it)
		return
	}
	o.last = it.id
	it.seats[o.kind] = o.first + len(o.tail)
	o.tail = append(o.tail, it)
}

func (o *order) remove(it *item) {
	place := it.seats[o.kind]
	if place < 0 {
		o.back.remove(it)
		return
	}
	o.tail[place-o.first] = nil
	o.holes++
	for len(o.tail) > 0 && o.tail[0] == nil {
		o.tail = o.tail[1:]
		o.first++
		o.holes--
	}
	if o.holes > len(o.tail)/2 {
		o.close()
	}
}

// close closes the holes. It costs no more than what made them.
func (o *order) close() {
	n := 0
	for _, it := range o.tail {
		if it != nil {
			o.tail[n] = it
			it.seats[o.kind] = o.first + n
			n++
		}
	}
	clear(o.tail[n:])
	o.tail, o.holes = o.tail[:n], 0
}

// An itemHeap is a heap of items that know their places: −1 − the index. The zero value
// is one by id.
type itemHeap struct {
	items []*item
	kind  seatKind
	timed bool // by time, then by id
}

func (h *itemHeap) top() *item {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *itemHeap) remove(it *item) { heap.Remove(h, -1-it.seats[h.kind]) }

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
	h.items[i].seats[h.kind] = -1 - i
	h.items[j].seats[h.kind] = -1 - j
}

// Push is heap.Interface's.
func (h *itemHeap) Push(x any) {
	it := x.(*item)
	it.seats[h.kind] = -1 - len(h.items)
	h.items = append(h.items, it)
}

// Pop is heap.Interface's.
func (h *itemHeap) Pop() any {
	n := len(h.items) - 1
	it := h.items[n]
	h.items[n] = nil
	h.items = h.items[:n]
	return it
}
