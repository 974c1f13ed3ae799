package lease

import "time"

// A Term is a term.
type Term struct{ term }

// NewTerm returns a term of the length ttl, sent at a time by both clocks.
func NewTerm(sent time.Time, wall int64, ttl time.Duration) *Term {
	return &Term{term{sent: sent, wall: wall, ttl: ttl}}
}

// Holds is holds.
func (t *Term) Holds(now time.Time, wall int64) bool { return t.holds(now, wall) }

// A Steady is a steady.
type Steady struct{ steady }

// Start is start.
func (c *Steady) Start(wall func() int64) { c.start(wall) }

// Latest is latest, Earliest earliest.
func (c *Steady) Latest() int64 { return c.latest() }

// Earliest is earliest.
func (c *Steady) Earliest() int64 { return c.earliest() }

// Begun returns the newest term of the seat's lease.
func (s *Seat) Begun() any { return s.lease.term.Load() }

// Open returns how many handles the seat's host has, and how many owner rows it is still to remove.
func (s *Seat) Open() (handles, unclaimed int) {
	c := &s.lease.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handles), len(c.unclaimed)
}
