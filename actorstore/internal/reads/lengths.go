package reads

import "github.com/greenroomdb/greenroom/batch"

// An actor remembers the lengths of so many values at most, of keys of so many bytes:
// what is written again and again is some keys, such as counters, cursors, settings. In
// all that is less than 20 KiB.
const (
	maxLengths   = 128
	maxLengthKey = 64
)

// lengths are those of values that the handle wrote lately without being told what they
// replace, −1 for a missing key. The next write to such a key charges the quota without
// a read. They are those of the newest applied state: what reads or changes them has the commit lock.
//
// They are behind pointers because storing under a key that is there would copy the key.
type lengths map[string]*int64

// land keeps l up with the writes of c.
func (l lengths) land(c *Change) {
	for i := c.From; i < c.To; i++ {
		o := c.Op(i)
		if o.Kind == batch.DeleteRange {
			clear(l)
			continue
		}
		length, there := l[string(o.Key)]
		if !there {
			// A writer that says what a write replaces knows it the next time, too.
			if _, known := o.Prior.Known(); known || len(o.Key) > maxLengthKey {
				continue
			}
			l.room()
			length = new(int64)
			l[string(o.Key)] = length
		}
		*length = c.After(i)
	}
}

// room forgets any one if there are too many: of keys that are written in turn the oldest
// would be the one that is next.
func (l lengths) room() {
	if len(l) < maxLengths {
		return
	}
	for key := range l {
		delete(l, key)
		return
	}
}
