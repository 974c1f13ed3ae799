package chunked

import (
	"cmp"
	"slices"
	"sync"
)

// Size is the size of a file chunk: one key of the actor. It is a format
// constant, not a parameter.
const Size = 4096

// MaxFileSize is the size at which the u32 chunk numbers end: 16 TiB.
const MaxFileSize = Size << 32

// MaxChunks is more than any chunk number.
const MaxChunks = int64(1) << 32

// Count is the number of chunks that a file of size bytes has.
func Count(size int64) int64 { return (size + Size - 1) / Size }

// A Buf holds one chunk.
type Buf [Size]byte

// A page is one chunk that was written and not yet stored.
type page struct {
	number uint32
	buf    *Buf
}

// pageSet holds the chunks that were written and not yet stored, in ascending order, which
// is that in which SQLite writes the pages of a transaction. Its buffers are reused, so that
// a steady stream of transactions allocates nothing. The zero value is empty and ready. It
// isn't safe for concurrent use.
type pageSet struct {
	pages []page
	free  []*Buf
}

// MaxKept bounds the buffers that a File keeps for reuse: 1 MiB.
const MaxKept = 256

// chunkBufs has what sets had beyond that, and what a read of a part of a chunk needs, until the garbage collector finds it unused: one
// large transaction after the other allocates little.
var chunkBufs = sync.Pool{New: func() any { return new(Buf) }}

func (s *pageSet) len() int { return len(s.pages) }

// from returns the place of the first chunk whose number is at least i.
func (s *pageSet) from(i int64) int {
	if n := len(s.pages); n == 0 || int64(s.pages[n-1].number) < i {
		return n
	}
	at, _ := slices.BinarySearchFunc(s.pages, i, func(p page, i int64) int { return cmp.Compare(int64(p.number), i) })
	return at
}

// within returns the chunks in [from, to). They are the set's.
func (s *pageSet) within(from, to int64) []page { return s.pages[s.from(from):s.from(to)] }

// get returns the buffer of chunk i, nil when it isn't in the set.
func (s *pageSet) get(i uint32) *Buf {
	if at := s.from(int64(i)); at < len(s.pages) && s.pages[at].number == i {
		return s.pages[at].buf
	}
	return nil
}

// add puts an uninitialised buffer for chunk i, which isn't in the set, into it.
func (s *pageSet) add(i uint32) *Buf {
	var p *Buf
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	} else {
		p = chunkBufs.Get().(*Buf)
	}
	s.pages = slices.Insert(s.pages, s.from(int64(i)), page{i, p})
	return p
}

// drop removes the chunks in [from, to).
func (s *pageSet) drop(from, to int64) {
	for _, p := range s.within(from, to) {
		s.recycle(p.buf)
	}
	s.pages = slices.Delete(s.pages, s.from(from), s.from(to))
}

// clear empties the set. Of a set that grew large the first buffers are kept, the
// rest is given back.
func (s *pageSet) clear() {
	large := len(s.pages) > MaxKept
	s.drop(0, MaxChunks)
	if large {
		s.pages = nil
	}
}

// rest gives the buffers back that are kept for reuse.
func (s *pageSet) rest() {
	for _, p := range s.free {
		chunkBufs.Put(p)
	}
	s.free = nil
	if len(s.pages) == 0 {
		s.pages = nil
	}
}

func (s *pageSet) recycle(p *Buf) {
	if len(s.free) < MaxKept {
		s.free = append(s.free, p)
	} else {
		chunkBufs.Put(p)
	}
}
