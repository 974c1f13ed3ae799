package chunked

import (
	"sync/atomic"

	"github.com/greenroomdb/greenroom/batch"
)

// lengths remembers how long each stored chunk of a file is, as far as that was
// seen, so that overwriting a chunk needs no read to keep the quota exact.
//
// Only the writer sets, resets and makes room. Readers may learn at any time: what
// they report is taken only while nothing is known about the chunk, and until the
// writer first stores or removes it, every state of the store agrees on its length.
//
// The table has two levels, because SQLite may write far beyond the end of a file, as
// a damaged database has it do.
type lengths struct {
	blocks atomic.Pointer[[]lengthSlot]
	bound  int64 // chunks from here on are absent when not known
}

// A lengthBlock has a length + 1 for each of up to perBlock chunks; 0: not known. It is as long as
// it must be, and its first chunk is a multiple of perBlock: a longer one takes its place when the file grows. Once it is in the
// table its lengths are used atomically.
type lengthBlock []uint32

type lengthSlot = atomic.Pointer[lengthBlock] // nil: nothing is known

const (
	perBlock   = int64(4096)
	leastBlock = int64(16)
)

// absentChunk marks a chunk that is known not to be stored.
const absentChunk = ^uint32(0)

// reset forgets everything: chunks from number bound on are absent. There is room for
// what readers learn of the first chunks, up to number room.
func (l *lengths) reset(bound, room int64) {
	l.blocks.Store(nil)
	l.bound = bound
	for i := int64(0); i < min(bound, room); i += perBlock {
		l.make(min(i+perBlock, bound) - 1)
	}
}

// at returns the place of chunk i, nil without one.
func (l *lengths) at(i int64) *uint32 {
	if b := l.block(i / perBlock); i%perBlock < int64(len(b)) {
		return &b[i%perBlock]
	}
	return nil
}

// block returns block n, nil without one.
func (l *lengths) block(n int64) lengthBlock {
	if all := l.blocks.Load(); all != nil && n < int64(len(*all)) {
		if b := (*all)[n].Load(); b != nil {
			return *b
		}
	}
	return nil
}

// make makes room for chunk i, and returns its place. What is absent is said to be, so that no reader of an
// older state, in which it was there, can report that. What readers learn meanwhile may be forgotten.
func (l *lengths) make(i int64) *uint32 {
	n := i / perBlock
	if all := l.blocks.Load(); all == nil || n >= int64(len(*all)) {
		l.grow(n + 1)
	}
	old, size := l.block(n), leastBlock
	for size <= i%perBlock {
		size *= 2
	}
	b := make(lengthBlock, size)
	for k := range old {
		b[k] = atomic.LoadUint32(&old[k])
	}
	for k := max(l.bound-n*perBlock, int64(len(old))); k < size; k++ {
		b[k] = absentChunk
	}
	(*l.blocks.Load())[n].Store(&b)
	return &b[i%perBlock]
}

// grow makes room for n blocks.
func (l *lengths) grow(n int64) {
	var old []lengthSlot
	if p := l.blocks.Load(); p != nil {
		old = *p
	}
	have := int64(len(old))
	next := make([]lengthSlot, max(n, have+have/2))
	for i := range old {
		next[i].Store(old[i].Load())
	}
	l.blocks.Store(&next)
}

// learn records a length that a reader saw. −1, that it saw no chunk, is not enough
// to go by: an empty one, which counts against the quota, reads the same.
func (l *lengths) learn(i uint32, n int) {
	if p := l.at(int64(i)); p != nil && n >= 0 {
		atomic.CompareAndSwapUint32(p, 0, encodeLength(n))
	}
}

// set records what the writer stored: n bytes, or −1 for a removed chunk.
func (l *lengths) set(i uint32, n int) {
	p := l.at(int64(i))
	if p == nil {
		p = l.make(int64(i))
	}
	atomic.StoreUint32(p, encodeLength(n))
}

// truncate records that the chunks from number from on are gone.
func (l *lengths) truncate(from int64) {
	l.bound = min(l.bound, from)
	p := l.blocks.Load()
	if p == nil {
		return
	}
	for n := from / perBlock; n < int64(len(*p)); n++ {
		b := l.block(n)
		for k := max(from-n*perBlock, 0); k < int64(len(b)); k++ {
			atomic.StoreUint32(&b[k], absentChunk)
		}
	}
}

// prior says what a batch may assume of chunk i.
func (l *lengths) prior(i uint32) batch.Prior {
	var v uint32
	if p := l.at(int64(i)); p != nil {
		v = atomic.LoadUint32(p)
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
		if i >= l.bound && l.block(i/perBlock) == nil {
			i += perBlock - i%perBlock - 1 // all of them are absent
			continue
		}
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
