package text

import (
	"fmt"
	"iter"
	"math/bits"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// ErrCorrupt is returned by Set.Decode for bytes that AppendPostings doesn't write. It is of the kind errkind.ErrCorrupt.
var ErrCorrupt = errkind.New("text: corrupt postings", errkind.ErrCorrupt)

// MaxDocs is how many documents a segment has at most. They have numbers from 0.
const MaxDocs = 1024

// A Set is a set of documents of one segment. The zero Set is empty. Add and Has panic for a number that is not in
// [0, MaxDocs). A Set may be read concurrently, but not while a method changes it.
type Set [MaxDocs / 64]uint64

// First returns the set of the first n documents of a segment, which have the numbers [0, n), for n up to MaxDocs.
func First(n int) (s Set) {
	for doc := range n {
		s.Add(doc)
	}
	return s
}

// Add adds a document.
func (s *Set) Add(doc int) { s[doc/64] |= 1 << (uint(doc) % 64) }

// Has reports whether a document is in the set.
func (s *Set) Has(doc int) bool { return s[doc/64]>>(uint(doc)%64)&1 != 0 }

// Remove removes a document that is in the set.
func (s *Set) Remove(doc int) { s[doc/64] &^= 1 << (uint(doc) % 64) }

// Bounds returns the least interval [first, end) that has all documents of the set, which isn't empty.
func (s *Set) Bounds() (first, end int) {
	lo, hi := 0, len(s)-1
	for lo < hi && s[lo] == 0 {
		lo++
	}
	for hi > 0 && s[hi] == 0 {
		hi--
	}
	return lo*64 + bits.TrailingZeros64(s[lo]), hi*64 + bits.Len64(s[hi])
}

// And removes the documents that are not in other.
func (s *Set) And(other *Set) {
	for i := range s {
		s[i] &= other[i]
	}
}

// Or adds the documents of other.
func (s *Set) Or(other *Set) {
	for i := range s {
		s[i] |= other[i]
	}
}

// AndNot removes the documents of other.
func (s *Set) AndNot(other *Set) {
	for i := range s {
		s[i] &^= other[i]
	}
}

// Empty reports whether the set has no documents.
func (s *Set) Empty() bool { return *s == Set{} }

// Len returns how many documents the set has.
func (s *Set) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// All yields the documents in the order of their numbers.
func (s *Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// Postings are stored as bytes in one of two forms. Existing encodings will not change.
//
// A list has a gap for each document: how many numbers lie between it and the one before, or below the first one. A gap
// up to 250 is one byte. A larger one is two, 251 + (gap-251)/256 and (gap-251)%256. No documents are zero bytes.
//
// A bitmap has the byte 255 and then a bit for each document, in bytes of eight, the lowest first, up to the last byte
// that isn't 0. AppendPostings writes it where the list would be longer.
const wideGap, bitmapMark = 251, 255

// AppendPostings appends to dst the postings of docs, which ascend strictly in [0, MaxDocs). It panics if they don't.
// It retains neither.
func AppendPostings(dst []byte, docs []uint16) []byte {
	start, next := len(dst), 0
	for _, doc := range docs {
		gap := int(doc) - next
		if gap < 0 || doc >= MaxDocs {
			panic(fmt.Sprintf("text: postings: document %d in the place of one in [%d, %d)", doc, next, MaxDocs))
		}
		if gap < wideGap {
			dst = append(dst, byte(gap))
		} else {
			dst = append(dst, byte(wideGap+(gap-wideGap)>>8), byte(gap-wideGap))
		}
		next = int(doc) + 1
	}
	size := (next + 7) / 8
	if len(dst)-start <= 1+size {
		return dst
	}
	dst = append(append(dst[:start], bitmapMark), make([]byte, size)...)
	for _, doc := range docs {
		dst[start+1+int(doc)/8] |= 1 << (doc % 8)
	}
	return dst
}

// Decode makes s the set of the documents whose postings are b, which it doesn't retain. After an error s is empty.
func (s *Set) Decode(b []byte) error {
	var docs Set
	*s = docs
	if len(b) > 0 && b[0] == bitmapMark {
		if len(b) == 1 || len(b) > 1+MaxDocs/8 || b[len(b)-1] == 0 {
			return ErrCorrupt
		}
		for i, bits := range b[1:] {
			s[i/8] |= uint64(bits) << (i % 8 * 8)
		}
		return nil
	}
	for next := 0; len(b) > 0; next++ {
		gap := int(b[0])
		if b = b[1:]; gap >= wideGap {
			if len(b) == 0 {
				return ErrCorrupt
			}
			gap, b = wideGap+(gap-wideGap)<<8+int(b[0]), b[1:]
		}
		if next += gap; next >= MaxDocs {
			return ErrCorrupt
		}
		docs.Add(next)
	}
	*s = docs
	return nil
}
