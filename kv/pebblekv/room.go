package pebblekv

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

const (
	// askEvery and askBytes are how old, and how many bytes of commits behind, the answer of the disk may be that a commit is judged by.
	// The call takes about as long as a small commit.
	askEvery = 250 * time.Millisecond
	askBytes = 4 << 20
)

// A room refuses commits while the disk has less free than a mark. What stays free is for Pebble: with the mark reached it writes
// what is in memory to tables, and what it compacts takes room before it gives some back. All methods are safe for
// concurrent use.
type room struct {
	// least is the mark in bytes, negative for none.
	least int64
	// bytes is askBytes, or less if the mark is near that.
	bytes int64
	// free asks the disk. See kv.Spacer.
	free func() (free int64, known bool, err error)
	// behind returns how many bytes are in no table yet.
	behind func() int64
	// turned is called when low has changed.
	turned func()

	used atomic.Int64 // bytes written since the disk was asked
	old  atomic.Bool  // that was askEvery ago; a commit doesn't look at the clock for it
	seen atomic.Int64 // what it has answered, math.MaxInt64 if that isn't known
	mark atomic.Int64 // what had to be free for commits then: least, and what must still be written to tables beyond a quarter of that
	low  atomic.Bool  // seen is less than mark

	asking sync.Mutex
	timer  *time.Timer // sets old; nil before the disk is asked first  +checklocks:asking
}

// newRoom returns a room with a mark in bytes, negative for none. The first commit asks the disk.
func newRoom(least int64, free func() (int64, bool, error), behind func() int64, turned func()) *room {
	r := &room{least: least, bytes: min(askBytes, max(1, least/8)), free: free, behind: behind, turned: turned}
	r.seen.Store(math.MaxInt64)
	r.old.Store(true)
	return r
}

// admit returns nil if a commit of about so many bytes may be written, else an error of the kind errkind.ErrNoSpace. Removals may
// use half of what the mark keeps free: they are small, and give room back.
func (r *room) admit(size int64, ops []kv.Op) error {
	if r.least < 0 || len(ops) == 0 {
		return nil
	}
	if r.used.Load() >= r.bytes || r.old.Load() {
		if r.asking.TryLock() { // or another commit asks, and the answer of before will do
			_ = r.ask() // what is wrong with the disk writing finds, and check says
		}
	}
	if size < r.bytes {
		size = 0 // many such ones come between two questions
	}
	free, mark := r.seen.Load(), r.mark.Load()
	if free-size >= mark || free >= r.least/2 && removes(ops) {
		return nil
	}
	return refusal(free, mark, size)
}

// check asks the disk, and returns what a small commit gets then.
func (r *room) check() error {
	if r.least < 0 {
		return nil
	}
	r.asking.Lock()
	if err := r.ask(); err != nil {
		return err
	}
	if free, mark := r.seen.Load(), r.mark.Load(); free < mark {
		return refusal(free, mark, 0)
	}
	return nil
}

// refusal is the error of what the disk has no room for.
func refusal(free, mark, size int64) error {
	if size > 0 {
		return fmt.Errorf("pebblekv: %w: the store's disk has %d bytes free, of which %d are kept, and a commit takes %d",
			errkind.ErrNoSpace, free, mark, size)
	}
	return fmt.Errorf("pebblekv: %w: the store's disk has %d bytes free, and less than %d", errkind.ErrNoSpace, free, mark)
}

// wrote says that so many bytes were written.
func (r *room) wrote(n int64) { r.used.Add(n) }

// ask asks the disk, and unlocks asking. If the disk doesn't answer nothing is refused.
//
// +checklocks:r.asking
func (r *room) ask() error {
	defer r.asking.Unlock()
	free, known, err := r.free()
	if !known || err != nil {
		free = math.MaxInt64
	}
	mark := r.least + max(0, r.behind()-r.least/4)
	r.seen.Store(free)
	r.mark.Store(mark)
	r.used.Store(0)
	r.old.Store(false)
	if r.timer == nil {
		r.timer = time.AfterFunc(askEvery, func() { r.old.Store(true) })
	} else {
		r.timer.Reset(askEvery)
	}
	if low := free < mark; r.low.Swap(low) != low {
		r.turned()
	}
	return err
}

// removes reports whether operations only remove.
func removes(ops []kv.Op) bool {
	for i := range ops {
		if ops[i].Kind == kv.OpSet {
			return false
		}
	}
	return true
}
