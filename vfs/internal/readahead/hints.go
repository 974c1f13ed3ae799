package readahead

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// On a far engine the first statement on a database would take a read for each level of
// a b-tree. So the actor keeps hints: which pages were read first when it was opened
// lately, and which are the inner pages of its b-trees. Opening it fetches
// them together with the metadata.
//
// They say where to look, and nothing about what is there. Hints that are old, damaged
// or gone cost bytes or reads.

// A run is the chunks [from, to) of the main file.
type run struct{ from, to int64 }

const (
	hintsVersion = 1
	// maxHinted bounds the chunks that hints ask for: 1 MiB.
	maxHinted = 256
	// firstChunks are fetched in any case, next to the metadata.
	firstChunks = 16
	// firstReads is how many pages count as those that are read first.
	firstReads = 32
	// hintsRipe is how many inner pages must be new for hints to go with a commit.
	hintsRipe = 32
)

// appendHints appends the encoded hints: the version, u16 little-endian, then for each
// run two varints, the gap since the end of the one before, and its length less 1. Runs
// ascend and don't touch. What doesn't fit into the size of hints is left out.
func appendHints(dst []byte, runs []run) []byte {
	start := len(dst)
	dst = bare.AppendVersion(dst, hintsVersion)
	end := int64(0)
	for _, r := range runs {
		n := len(dst)
		dst = binary.AppendUvarint(dst, uint64(r.from-end))
		dst = binary.AppendUvarint(dst, uint64(r.to-r.from-1))
		if len(dst)-start > actorstore.MaxHints {
			return dst[:n]
		}
		end = r.to
	}
	return dst
}

// parseHints decodes hints. Those of a later version are none.
func parseHints(b []byte) (runs []run, err error) {
	version, rest, err := bare.Version(b)
	if err != nil {
		return nil, fmt.Errorf("vfs: hints: %w", err)
	}
	if version != hintsVersion {
		return nil, nil
	}
	end, total := int64(0), int64(0)
	for len(rest) > 0 {
		gap, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, errHints
		}
		more, m := binary.Uvarint(rest[n:])
		if m <= 0 || gap >= uint64(chunked.MaxChunks) || more >= maxHinted || gap == 0 && len(runs) > 0 {
			return nil, errHints
		}
		r := run{end + int64(gap), end + int64(gap) + int64(more) + 1}
		if total += r.to - r.from; r.to > chunked.MaxChunks || total > maxHinted {
			return nil, errHints
		}
		runs, rest, end = append(runs, r), rest[n+m:], r.to
	}
	return runs, nil
}

// errHints is damage, of which no caller is told: such hints ask for nothing.
var errHints = fmt.Errorf("vfs: hints: %w", actorstore.ErrCorrupt)

// hints are those of a database while it is open, on a far engine.
type hints struct {
	known map[int64]bool // chunks that it was opened with
	older []int64        // of these, inner pages: they are worth to be kept

	mu    sync.Mutex
	pages map[int64]int64 // pages of this time: first chunk, number of chunks  +checklocks:mu
	order []int64         // pages, as they came  +checklocks:mu
	reads int             // of these, those that were read first  +checklocks:mu
	fresh int             // inner pages since hints were last handed over  +checklocks:mu
}

// newHints returns the hints of an actor that is being opened, and what they ask for.
func newHints(stored []byte) (*hints, []run) {
	runs := asked(stored)
	return &hints{pages: map[int64]int64{}, known: chunksOf(runs)}, runs
}

// asked returns what stored hints ask for.
func asked(stored []byte) []run {
	runs, err := parseHints(stored)
	if err != nil {
		return nil
	}
	return runs
}

// chunksOf returns the chunks of runs.
func chunksOf(runs []run) map[int64]bool {
	set := map[int64]bool{}
	for _, r := range runs {
		for c := r.from; c < r.to; c++ {
			set[c] = true
		}
	}
	return set
}

// fetched is told the content of a chunk that was fetched because of the hints.
func (h *hints) fetched(chunk int64, b []byte) {
	if h.known[chunk] && chunk > 0 && innerPage(b) {
		h.older = append(h.older, chunk)
	}
}

// innerPage says whether a page that begins with b, and isn't the first, looks like an
// inner one of a b-tree. Pages of other kinds begin with the number of another page.
//
// https://sqlite.org/fileformat2.html#b_tree_pages
func innerPage(b []byte) bool { return len(b) > 0 && (b[0] == 2 || b[0] == 5) }

// page records that a page was read or written: b, at offset off of a file with pages of size bytes, plain SQLite or not.
func (h *hints) page(size int64, plain bool, b []byte, off int64, written bool) {
	if size == 0 || off%size != 0 || int64(len(b)) < min(size, chunked.Size) {
		return
	}
	chunk, n := off/chunked.Size, max(1, size/chunked.Size)
	if chunk+n <= firstChunks {
		return // fetched in any case
	}
	inner := off > 0 && innerPage(b) && plain
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !written && h.reads < firstReads
	if !first && !inner || h.pages[chunk] > 0 || len(h.order) >= maxHinted {
		return
	}
	if !written {
		h.reads++
	}
	h.pages[chunk] = n
	h.order = append(h.order, chunk)
	if inner && !h.known[chunk] {
		h.fresh++
	}
}

// encode returns the hints for a file of so many chunks: the pages of this time, and of
// those before what there is room for.
//
// +checklocks:h.mu
func (h *hints) encode(end int64) []byte {
	set, total := map[int64]bool{}, int64(0)
	add := func(chunk, n int64) {
		for c := max(chunk, firstChunks); c < min(chunk+n, end) && total < maxHinted; c++ {
			if !set[c] {
				set[c] = true
				total++
			}
		}
	}
	for _, chunk := range h.order {
		add(chunk, h.pages[chunk])
	}
	for _, chunk := range h.older {
		add(chunk, 1)
	}
	var runs []run
	for _, c := range slices.Sorted(maps.Keys(set)) {
		if n := len(runs); n > 0 && runs[n-1].to == c {
			runs[n-1].to++
		} else {
			runs = append(runs, run{c, c + 1})
		}
	}
	return appendHints(nil, runs)
}

// ripe returns hints that should go with the next commit, nil if none should.
func (h *hints) ripe(end int64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fresh < hintsRipe {
		return nil
	}
	h.fresh = 0
	return h.encode(end)
}

// final returns hints that are worth a commit of their own, nil if they are not, beside
// those that are stored.
func (h *hints) final(end int64, stored []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.encode(end)
	had, lacking := chunksOf(asked(stored)), 0
	now := chunksOf(asked(b))
	for c := range now {
		if !had[c] {
			lacking++
		}
	}
	// A few pages are different every time.
	if lacking == 0 || len(had) > 0 && lacking <= len(now)/8 {
		return nil
	}
	return b
}
