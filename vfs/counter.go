package vfs

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// SQLite finds out that another connection changed the database by its change
// counter, bytes 24 to 27 of page 1, repeated in 92 to 95. go-sqlite3's build
// does not move that counter in a batch-atomic commit (it is compiled with both
// SQLITE_ENABLE_ATOMIC_WRITE and SQLITE_ENABLE_BATCH_ATOMIC_WRITE, and
// sqlite3PagerCommitPhaseOne then skips pager_incr_changecounter), nor in the
// journal that replaces a refused one. So the counter that a connection reads is
// made up here: it moves when the view does, and stays when it doesn't.
//
// Each connection has a numbering of its own. What it wrote itself it knows, so
// the number is taken from the page it writes, and the view that its own commit
// publishes keeps that number: the writer's cache stays warm. Both places are
// overlaid, because the size in the header counts only where they agree: that they do
// or don't is kept. A numbering starts anywhere, and anew after a time when the file wasn't plain, so
// that it doesn't meet the numbers that SQLite itself kept in it meanwhile.
//
// https://sqlite.org/fileformat2.html#file_change_counter

// A hold is what a connection has of the states: the view that it reads, and the change counter that it was shown for that.
type hold struct {
	view *view // held from SHARED on

	// counter is the change counter that this connection was last shown, and
	// counterSeq the view for which; shown is false while the numbers were not
	// made up.
	counter    uint32
	counterSeq uint64
	shown      bool
}

// overlayCounter puts h's counter for view v into b, which was read from off.
func (h *hold) overlayCounter(b []byte, off int64, hdr *format.Header, v *view) {
	end := off + int64(len(b))
	if off >= format.VersionForAt+4 || end <= format.CounterAt {
		return
	}
	if !hdr.Plain() {
		h.shown = false // now it is shown SQLite's own
		return
	}
	if v != nil && h.counterSeq != v.seq {
		h.counter++
		h.counterSeq = v.seq
		if !h.shown {
			h.counter, h.shown = rand.Uint32(), true
		}
	}
	// Where the two disagree they go on to: the size in the header doesn't count then.
	second := h.counter
	if [4]byte(hdr[format.CounterAt:]) != [4]byte(hdr[format.VersionForAt:]) {
		second = ^second
	}
	for k, n := range [...]uint32{h.counter, second} {
		var counter [4]byte
		binary.BigEndian.PutUint32(counter[:], n)
		at := [...]int64{format.CounterAt, format.VersionForAt}[k]
		if from := max(at, off); from < min(at+4, end) {
			copy(b[from-off:], counter[from-at:])
		}
	}
}
