package cache

import "sync/atomic"

// A door lets into a shard only what has been there before, as the doorkeeper of TinyLFU
// does (https://arxiv.org/abs/1512.00727): where a miss costs little, what is read once
// isn't worth a copy. Each place has 16 bits of each of the last four hashes that came
// there. Losing one is losing a hit, and taking one for another a useless copy, so
// nothing is locked.
type door []atomic.Uint64

// doorBytes is how much of the cache stands behind each place: about a page, so that one
// hash is there for each page that fits, and few of what is read in turns push each
// other out.
const doorBytes = 4 << 10

func newDoor(bytes int64) door {
	n := 1
	for int64(n)*doorBytes < bytes {
		n *= 2
	}
	return make(door, n)
}

// knocked says whether hash was here before, and remembers it.
func (d door) knocked(hash uint64) bool {
	mark := hash>>48 | 1 // never that of an empty place
	place := &d[hash&uint64(len(d)-1)]
	last := place.Load()
	for w := last; w != 0; w >>= 16 {
		if w&0xffff == mark {
			return true
		}
	}
	place.Store(last<<16 | mark)
	return false
}
