package cache

import "fmt"

// Unexported names that tests use.
const (
	MaxClearings = maxClearings
	MinGhosts    = minGhosts
)

// Clearings returns how many deleted ranges a hit is compared with.
func (p *Part) Clearings() int {
	if c := p.cleared.Load(); c != nil {
		return len(*c)
	}
	return 0
}

// A Door is one that lets in what was there before.
type Door = door

// NewDoor is newDoor.
func NewDoor(bytes int64) Door { return newDoor(bytes) }

// Knocked is knocked.
func (d door) Knocked(hash uint64) bool { return d.knocked(hash) }

// Audit returns how many bytes are kept, and an error if the books about them are wrong.
func (c *Cache) Audit() (kept int64, err error) {
	for i := range c.shards {
		s := &c.shards[i]
		n := 0
		for _, q := range []*queue{&s.probation, &s.main} {
			var bytes int64
			for e := q.oldest; e != nil; e = e.next {
				if s.entries[e.hash] != e || e.queue != q {
					return kept, fmt.Errorf("%q is in a queue it isn't in", e.Key)
				}
				bytes += e.Size()
				n++
			}
			if bytes != q.bytes {
				return kept, fmt.Errorf("a queue has %d bytes, it says %d", bytes, q.bytes)
			}
			kept += bytes
		}
		if n != len(s.entries) {
			return kept, fmt.Errorf("%d entries, %d of them in queues", len(s.entries), n)
		}
		if len(s.ghosts.order) > 2*len(s.entries)+2*minGhosts || len(s.ghosts.in) > len(s.ghosts.order) {
			return kept, fmt.Errorf("%d ghosts in order, %d to be found, of %d entries", len(s.ghosts.order), len(s.ghosts.in), n)
		}
	}
	return kept, nil
}
