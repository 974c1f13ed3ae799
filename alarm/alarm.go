// Package alarm is the one alarm clock of an actor. Scheduled events, workflows that
// sleep and messages that become visible later each have a time at which they want to
// be woken; a Clock keeps them apart, so that none displaces another, and knows the
// earliest of all, which is when the actor must be awake.
//
// Nothing is stored here: each source knows from its own data what it waits for, and
// sets its time when it is loaded. A time that has passed rings at once.
package alarm

import (
	"sync"
	"time"
)

// maxNap bounds how long a Clock trusts its timer: timers count the time that the
// machine was awake, and times of day move when a clock is set or a machine wakes up.
const maxNap = time.Minute

// A Clock rings its sources. It is safe for concurrent use.
type Clock struct {
	now      func() time.Time
	onChange func(next time.Time)

	mu      sync.Mutex
	sources []*Source   // +checklocks:mu
	next    time.Time   // as told to onChange  +checklocks:mu
	timer   *time.Timer // +checklocks:mu
	closed  bool        // +checklocks:mu
	ringing sync.WaitGroup

	// telling orders the calls of onChange.
	telling sync.Mutex
}

// Options change what New makes; nil is the zero Options.
type Options struct {
	// Now is the time of day; nil means time.Now.
	Now func() time.Time
	// OnChange is called with the earliest time of all sources whenever it changes,
	// the zero time when there is none: for who must wake the actor when nobody of it
	// is in memory. It is called in the order of the changes, and may be called with a
	// time that was overtaken; it must not call the Clock.
	OnChange func(next time.Time)
}

// New returns a Clock without sources.
func New(opts *Options) *Clock {
	if opts == nil {
		opts = &Options{}
	}
	c := &Clock{now: opts.Now, onChange: opts.OnChange}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Now returns the time of day that c goes by.
func (c *Clock) Now() time.Time { return c.now() }

// A Source is one of those who want to be woken.
type Source struct {
	clock *Clock
	ring  func()
	at    time.Time // zero: not set  +checklocks:clock.mu
	// running says that ring is being called, again that it must be once more.
	running, again bool // +checklocks:clock.mu
	gone           bool // +checklocks:clock.mu
}

// Source adds a source. Its time is not set. When it comes, the time is cleared and
// ring called on a goroutine of its own; it never runs twice at once. ring finds out by
// itself what is due, and sets the next time.
func (c *Clock) Source(ring func()) *Source {
	s := &Source{clock: c, ring: ring}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, s)
	return s
}

// Set has the source rung at that time, and no more at the time that was set before.
// The zero time clears it. A time that isn't in the future rings at once.
func (s *Source) Set(at time.Time) {
	c := s.clock
	c.mu.Lock()
	if !s.gone {
		s.at = at
		c.arm()
	}
	c.mu.Unlock()
	c.tell()
}

// At returns the time that is set, the zero time if none is.
func (s *Source) At() time.Time {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.at
}

// Close takes the source out of its Clock. ring may still be running when it returns.
// A second Close does nothing.
func (s *Source) Close() {
	c := s.clock
	c.mu.Lock()
	for i, other := range c.sources {
		if other == s {
			c.sources = append(c.sources[:i], c.sources[i+1:]...)
			break
		}
	}
	s.at, s.gone = time.Time{}, true
	c.arm()
	c.mu.Unlock()
	c.tell()
}

// Next returns the earliest time of all sources, the zero time if none is set.
func (c *Clock) Next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.earliest()
}

// +checklocks:c.mu
func (c *Clock) earliest() (first time.Time) {
	for _, s := range c.sources {
		if !s.at.IsZero() && (first.IsZero() || s.at.Before(first)) {
			first = s.at
		}
	}
	return first
}

// Close stops c and waits until nothing rings any more. It isn't for ring to call. What
// is set afterwards never rings, and OnChange isn't called for it.
func (c *Clock) Close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.ringing.Wait()
}

// arm rings what is due, and sets the timer for what comes next.
//
// +checklocks:c.mu
func (c *Clock) arm() {
	if c.closed {
		return
	}
	now := c.now()
	for _, s := range c.sources {
		if !s.at.IsZero() && !s.at.After(now) {
			s.at = time.Time{}
			s.start()
		}
	}
	first := c.earliest()
	switch {
	case first.IsZero() && c.timer != nil:
		c.timer.Stop()
	case first.IsZero():
	case c.timer == nil:
		c.timer = time.AfterFunc(min(first.Sub(now), maxNap), c.tick)
	default:
		c.timer.Reset(min(first.Sub(now), maxNap))
	}
}

// tick is called by the timer.
func (c *Clock) tick() {
	c.mu.Lock()
	c.arm()
	c.mu.Unlock()
	c.tell()
}

// start calls ring, or has it called once more after the call that is under way.
//
// +checklocks:s.clock.mu
func (s *Source) start() {
	if s.running {
		s.again = true
		return
	}
	s.running = true
	s.clock.ringing.Go(s.run)
}

func (s *Source) run() {
	c := s.clock
	for {
		s.ring()
		c.mu.Lock()
		if !s.again || s.gone || c.closed {
			s.running = false
			c.mu.Unlock()
			return
		}
		s.again = false
		c.mu.Unlock()
	}
}

// tell calls onChange if the earliest time is another than it was told.
func (c *Clock) tell() {
	if c.onChange == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	next := c.earliest()
	changed := !next.Equal(c.next) && !c.closed
	if changed {
		c.next = next
	}
	c.mu.Unlock()
	if changed {
		c.onChange(next)
	}
}
