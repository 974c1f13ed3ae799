package actorstore

import (
	"bytes"
	"hash/maphash"

	"github.com/greenroomdb/greenroom/batch"
)

// rememberedLengths is how many keys an actor remembers the length of, at most: what is
// written again and again is a few keys, such as a counter, a state or a cursor.
const rememberedLengths = 16

// lengths are those of values that the handle wrote lately without being told what they
// replace. The next write to such a key charges the quota without a read. They are those
// of the newest applied state: only a flight that has the commit lock reads them, and only
// one that has landed changes them.
type lengths struct {
	seed  maphash.Seed
	slots [rememberedLengths]remembered
}

type remembered struct {
	key  []byte // nil for none; the memory is the slot's
	size int64  // −1: there is no such key
}

func newLengths() *lengths { return &lengths{seed: maphash.MakeSeed()} }

func (l *lengths) slot(key []byte) *remembered {
	return &l.slots[maphash.Bytes(l.seed, key)%rememberedLengths]
}

// of returns the length of the value of key, if it is remembered.
func (l *lengths) of(key []byte) (size int64, ok bool) {
	if l == nil {
		return 0, false
	}
	s := l.slot(key)
	return s.size, s.key != nil && bytes.Equal(s.key, key)
}

// landed keeps l up with the writes that f has just stored.
func (l *lengths) landed(f *flight) {
	for i := f.from; i < f.to; i++ {
		o := f.op(i)
		if o.Kind == batch.DeleteRange {
			l.forget()
			continue
		}
		s := l.slot(o.Key)
		if _, known := o.Prior.Known(); known && !bytes.Equal(s.key, o.Key) {
			continue // who writes it knows what it replaces, and will again
		}
		s.key, s.size = append(s.key[:0], o.Key...), f.after(i)
	}
}

func (l *lengths) forget() {
	for i := range l.slots {
		l.slots[i].key = nil
	}
}
