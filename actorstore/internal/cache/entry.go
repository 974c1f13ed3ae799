package cache

import (
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
)

// entryBytes is about what an entry costs besides key and value: itself and its
// place in the map.
const entryBytes = 192

// A Kind says how much of a value is known.
type Kind uint8

// Kinds of entries.
const (
	Whole  Kind = iota // all of it: at most one row
	Absent             // the key is missing
	Page               // its first 10,000 bytes, of perhaps more
	NoPage             // the key is missing, or its value is empty
)

// An Entry is one key and what is stored under it. What is exported doesn't change once it was
// put: a new value is a new Entry.
type Entry struct {
	Key   string
	Value []byte
	From  uint64 // the commit from which this is known to hold
	Kind  Kind

	of         *tenant
	hash       uint64
	hits       atomic.Uint32
	prev, next *Entry // older and newer in queue; guarded by the shard, as queue is
	queue      *queue
}

// Size is about what the entry takes in memory, in bytes.
func (e *Entry) Size() int64 { return int64(len(e.Key) + len(e.Value) + entryBytes) }

// Use counts a use of an entry that wasn't put yet, so that no scan drives it out.
func (e *Entry) Use() { e.hits.Store(2) }

// Kept says whether the entry was put into a Cache, which may have evicted it since.
func (e *Entry) Kept() bool { return e.of != nil }

// Answers says whether the entry knows enough for the whole value, or else for its first page.
func (e *Entry) Answers(whole bool) bool { return !whole || e.Kind == Whole || e.Kind == Absent }

// Answer appends the value to dst if whole, else its first page. A missing one is kv.ErrNotFound.
func (e *Entry) Answer(dst []byte, whole bool) ([]byte, error) {
	if e.Kind == Absent || len(e.Value) == 0 && !whole {
		return dst, kv.ErrNotFound
	}
	return append(dst, e.Value...), nil
}

// is says whether e is t's of key.
func (e *Entry) is(t *tenant, key []byte) bool { return e.of == t && e.Key == string(key) }

// cleared says whether e lies in a range that was deleted since it was read.
func (e *Entry) cleared(in []clearing) bool {
	for i := range in {
		if c := &in[i]; e.From < c.seq && c.start <= e.Key && (c.end == "" || e.Key < c.end) {
			return true
		}
	}
	return false
}

// Hash is what Drop takes, of an entry that was put.
func (e *Entry) Hash() uint64 { return e.hash }

// A queue is a list of entries in the order in which they came.
type queue struct {
	oldest, newest *Entry
	bytes          int64
}

func (q *queue) push(e *Entry) {
	e.queue, e.prev, e.next = q, q.newest, nil
	if q.newest != nil {
		q.newest.next = e
	} else {
		q.oldest = e
	}
	q.newest = e
	q.bytes += e.Size()
}

func (q *queue) remove(e *Entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.newest = e.prev
	}
	q.bytes -= e.Size()
	e.queue, e.prev, e.next = nil, nil, nil
}

// replace puts e into the place of old.
func (q *queue) replace(old, e *Entry) {
	e.queue, e.prev, e.next = q, old.prev, old.next
	if e.prev != nil {
		e.prev.next = e
	} else {
		q.oldest = e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		q.newest = e
	}
	q.bytes += e.Size() - old.Size()
	old.queue, old.prev, old.next = nil, nil, nil
}

// A tenant is whose an entry is.
type tenant struct {
	salt uint64
	// dead: its entries are never asked for again.
	dead atomic.Bool
	// cleared are ranges that were deleted, each with the commit that did: what is
	// older in them is void.
	cleared clearings
}

// A clearing is a deleted range of keys.
type clearing struct {
	start, end string // an end of "" means without bound
	seq        uint64
}

// maxClearings bounds what a hit must be compared with.
const maxClearings = 8

// clearings are what a Part's cleared points to.
type clearings struct {
	atomic.Pointer[[]clearing]
}

// with returns them with another one, and without those that are within it.
func (c *clearings) with(start, end []byte, seq uint64) []clearing {
	all := []clearing{{string(start), string(end), seq}}
	if was := c.Load(); was != nil {
		for _, w := range *was {
			if w.start < all[0].start || all[0].end != "" && (w.end == "" || w.end > all[0].end) {
				all = append(all, w) // not within the new one
			}
		}
	}
	return all
}
