package vfs

import (
	"slices"
	"sync"
)

// chunkSize is the size of a file chunk: one key of the actor. It is a format
// constant, not a parameter.
const chunkSize = 4096

// maxFileSize is the size at which the u32 chunk numbers end: 16 TiB.
const maxFileSize = chunkSize << 32

// chunkCount is the number of chunks that a file of size bytes has.
func chunkCount(size int64) int64 { return (size + chunkSize - 1) / chunkSize }

// A chunkBuf holds one chunk.
type chunkBuf [chunkSize]byte

// pageSet holds the chunks that were written and not yet stored, by number. Its
// buffers are reused, so that a steady stream of transactions allocates nothing.
// The zero value is empty and ready. It isn't safe for concurrent use.
type pageSet struct {
	pages map[uint32]*chunkBuf
	free  []*chunkBuf
	order []uint32
}

// maxFree bounds the buffers that a set keeps for reuse: 1 MiB.
const maxFree = 256

// chunkBufs has what sets had beyond that, until the garbage collector finds it unused: one
// large transaction after the other allocates little.
var chunkBufs = sync.Pool{New: func() any { return new(chunkBuf) }}

func (s *pageSet) len() int { return len(s.pages) }

// get returns the buffer of chunk i, nil when it isn't in the set.
func (s *pageSet) get(i uint32) *chunkBuf { return s.pages[i] }

// add puts an uninitialised buffer for chunk i, which isn't in the set, into it.
func (s *pageSet) add(i uint32) *chunkBuf {
	if s.pages == nil {
		s.pages = make(map[uint32]*chunkBuf)
	}
	var p *chunkBuf
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	} else {
		p = chunkBufs.Get().(*chunkBuf)
	}
	s.pages[i] = p
	return p
}

// remove takes chunk i out of the set.
func (s *pageSet) remove(i uint32) {
	s.recycle(s.pages[i])
	delete(s.pages, i)
}

// sorted returns the chunk numbers in ascending order. The slice is the set's,
// valid until the next call.
func (s *pageSet) sorted() []uint32 {
	s.order = s.order[:0]
	for i := range s.pages {
		s.order = append(s.order, i)
	}
	slices.Sort(s.order)
	return s.order
}

// drop removes the chunks from number `from` on.
func (s *pageSet) drop(from int64) {
	for i := range s.pages {
		if int64(i) >= from {
			s.remove(i)
		}
	}
}

// clear empties the set. Of a set that grew large the first buffers are kept, the
// rest and the map's memory are given back.
func (s *pageSet) clear() {
	large := len(s.pages) > maxFree
	for _, p := range s.pages {
		s.recycle(p)
	}
	if clear(s.pages); large {
		s.pages, s.order = nil, nil
	}
}

func (s *pageSet) recycle(p *chunkBuf) {
	if len(s.free) < maxFree {
		s.free = append(s.free, p)
	} else {
		chunkBufs.Put(p)
	}
}
