package queue

import "github.com/tidwall/btree"

// An item is a stored message in memory.
type item struct {
	id      ID
	line    *line // nil before it has landed
	created int64
	size    int    // of the stored value, in bytes
	rec     []byte // the stored value, nil when it must be read; never changed
	past    *past  // what the stored value doesn't say, nil for nothing; never changed
	lease

	debounce *debounceKey // by which it is replaced, nil if it isn't

	claim    *change // what a batch is about to do with it, nil for nothing
	priority int8
	stays    bool // it can't become a dead letter
	doomed   bool // it becomes one even if it wasn't handed out often enough, unless it stays
	where    where
}

// before says whether a message is handed out before another one: of two of the same priority, one that is stored comes before one that
// the same batch adds.
func (it *item) before(other *item) bool {
	if it.priority != other.priority {
		return it.priority > other.priority
	}
	if own := it.line == nil; own != (other.line == nil) {
		return !own
	}
	return it.id < other.id
}

// where says in which order an item stands.
type where uint8

const (
	nowhere where = iota // claimed, or not entered
	visible              // in that of its line, and in that of all
	timed
	dying
)

// A line is the messages of one name.
type line struct {
	name  string
	total int   // messages, visible or not
	ready order // the visible ones
}

// An order is items, sorted. What an item is sorted by must not change in relation to others while the item is in. The zero order is
// empty, and that in which messages are handed out.
//
// The first item stands outside of the tree: mostly it is the only one, and a tree of one takes memory each time.
type order struct {
	top   *item                // the first, nil without one
	rest  *btree.BTreeG[*item] // nil before the second item
	first func(a, b *item) bool
}

// byTurn sorts items as they are handed out, byID by their ids, and byTime by when something happens to them.
func byTurn(a, b *item) bool { return a.before(b) }

func byID(a, b *item) bool { return a.id < b.id }

func byTime(a, b *item) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

func (o *order) push(it *item) {
	if o.first == nil {
		o.first = byTurn
	}
	switch {
	case o.top == nil:
		o.top = it
		return
	case o.first(it, o.top):
		o.top, it = it, o.top
	}
	if o.rest == nil {
		o.rest = btree.NewBTreeGOptions(o.first, btree.Options{NoLocks: true}) // Queue.mu guards it
	}
	o.rest.Set(it)
}

// len returns how many items there are.
func (o *order) len() int {
	n := 0
	if o.top != nil {
		n++
	}
	if o.rest != nil {
		n += o.rest.Len()
	}
	return n
}

// each calls fn with all items, in their order.
func (o *order) each(fn func(it *item)) {
	if o.top != nil {
		fn(o.top)
	}
	if o.rest != nil {
		o.rest.Scan(func(it *item) bool { fn(it); return true })
	}
}

// remove takes out an item, which is in.
func (o *order) remove(it *item) {
	switch {
	case it != o.top:
		o.rest.Delete(it)
	case o.rest == nil:
		o.top = nil
	default:
		o.top, _ = o.rest.PopMin()
	}
}
