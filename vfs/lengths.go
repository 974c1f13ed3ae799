package vfs

import (
	"sync/atomic"

	"github.com/greenroomdb/greenroom/batch"
)

// lengths remembers how long each stored chunk of a file is, as far as that was
// seen, so that overwriting a chunk needs no read to keep the quota exact.
//
// Only the writer sets and resets. Readers may learn at any time: what they
// report is taken only while nothing is known about the chunk, and until the
// writer has stored it once, every state of the store agrees on its length.
type lengths struct {
	chunks atomic.Pointer[[]atomic.Uint32] // a length + 1; 0: not known
	bound  int64                           // chunks from here on are absent when not known
}

// absentChunk marks a chunk that is known not to be stored.
const absentChunk = ^uint32(0)

// reset forgets everything; chunks from number bound on are absent.
func (l *lengths) reset(bound int64) {
	l.chunks.Store(nil)
	l.bound = bound
}

// learn records a length that a reader saw. −1, that it saw no chunk, is not enough
// to go by: an empty one, which counts against the quota, reads the same.
func (l *lengths) learn(i uint32, n int) {
	if n < 0 {
		return
	}
	c := l.chunks.Load()
	if c == nil || int64(i) >= int64(len(*c)) {
		return // the table is the writer's to grow; grow made room at open
	}
	(*c)[i].CompareAndSwap(0, encodeLength(n))
}

// set records what the writer stored: n bytes, or −1 for a removed chunk.
func (l *lengths) set(i uint32, n int) {
	l.grow(int64(i) + 1)
	(*l.chunks.Load())[i].Store(encodeLength(n))
}

// truncate records that the chunks from number from on are gone.
func (l *lengths) truncate(from int64) {
	l.bound = min(l.bound, from)
	c := l.chunks.Load()
	if c == nil {
		return
	}
	for i := from; i < int64(len(*c)); i++ {
		(*c)[i].Store(absentChunk)
	}
}

// grow makes room for chunks below n. What a reader learns meanwhile may be
// lost, which costs a read later and nothing else.
func (l *lengths) grow(n int64) {
	old := l.chunks.Load()
	if old != nil && n <= int64(len(*old)) {
		return
	}
	have := 0
	if old != nil {
		have = len(*old)
	}
	next := make([]atomic.Uint32, max(n, int64(have)+int64(have)/2, 16))
	for i := range have {
		next[i].Store((*old)[i].Load())
	}
	l.chunks.Store(&next)
}

// prior says what a batch may assume of chunk i.
func (l *lengths) prior(i uint32) batch.Prior {
	var v uint32
	if c := l.chunks.Load(); c != nil && int64(i) < int64(len(*c)) {
		v = (*c)[i].Load()
	}
	switch {
	case v == absentChunk, v == 0 && int64(i) >= l.bound:
		return batch.Absent
	case v == 0:
		return batch.PriorUnknown
	}
	return batch.Stored(int(v - 1))
}

// stored returns what the chunks from number from on count against the quota,
// each length plus perKey, or false when some length isn't known. end is the
// number after the last chunk that can exist.
func (l *lengths) stored(from, end int64, perKey int) (total int64, ok bool) {
	for i := from; i < end; i++ {
		n, known := l.prior(uint32(i)).Known()
		if !known {
			return 0, false
		}
		if n >= 0 {
			total += n + int64(perKey)
		}
	}
	return total, true
}

func encodeLength(n int) uint32 {
	if n < 0 {
		return absentChunk
	}
	return uint32(n) + 1
}
