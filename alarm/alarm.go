// Package alarm is the one alarm clock of an actor. Scheduled events, workflows that
// sleep and messages that become visible later each have a time at which they want to
// be woken; a Clock keeps them apart, so that none displaces another, and knows the
// earliest of all, which is when the actor must be awake.
//
// Nothing is stored here: each source knows from its own data what it waits for, and
// sets its time when it is loaded. A time that has passed rings at once.
//
// What a source waits for is mostly stored, and stays so when the source is closed to let
// the actor sleep. Such a source is a lasting one: its time outlives it, rings no more,
// and still counts for the earliest of all, until a source of the same name takes
// its place. So the last time that Options.OnChange is told of before the actor sleeps is
// when it must be woken. A Clock knows only of what was opened with it: an actor that is
// awake opens everything that may want to be woken before anybody relies on Next.
package alarm

import (
	"slices"
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
	seen    time.Time   // the time of day when it was last looked at  +checklocks:mu
	timer   *time.Timer // +checklocks:mu
	stopped bool        // nothing rings any more  +checklocks:mu
	closed  bool        // nor is anybody told  +checklocks:mu
	ringing sync.WaitGroup

	// telling orders the calls of onChange.
	telling sync.Mutex
}

// Options change what New makes; nil is the zero Options.
type Options struct {
	// Now is the time of day; nil means time.Now.
	Now func() time.Time
	// OnChange is called with the earliest time of all sources whenever it changes,
	// the zero time without one: for whatever must wake the actor when it is
	// not in memory. It is called in the order of the changes, and may be called with a
	// time that was overtaken; it must not call the Clock. The time for which a
	// source is being rung counts until ring has set the next one or returned, so that
	// an actor whose process ends meanwhile is woken again.
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

// A Source is one of those that want to be woken.
type Source struct {
	clock *Clock
	name  string // of a lasting one, else ""
	ring  func()
	at    time.Time // zero: not set  +checklocks:clock.mu
	held  bool      // at counts, and doesn't ring  +checklocks:clock.mu
	rung  time.Time // for which ring is being called, else zero  +checklocks:clock.mu
	// running says that ring is being called, again that it must be once more.
	running, again bool // +checklocks:clock.mu
	gone           bool // it rings no more  +checklocks:clock.mu
}

// Source adds a source. Its time is not set. When it comes, the time is cleared and
// ring called on a goroutine of its own; it never runs twice at once. When the clock was set
// back it is called at once, since a source may wait for a duration. ring finds out by
// itself what is due, and sets the next time, of all that it hasn't done. If it ends its goroutine it is called once more.
func (c *Clock) Source(ring func()) *Source { return c.Lasting("", ring) }

// Lasting adds a source whose times are stored: Close leaves its time to the Clock, where
// it counts, and doesn't ring. A source takes the place of the one that has the same name,
// and what was left of that counts until the new one is Set or Held. A source without
// a name is one that Source returns.
func (c *Clock) Lasting(name string, ring func()) *Source {
	s := &Source{clock: c, name: name, ring: ring}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.sources {
		if name != "" && other.name == name {
			s.at, s.held = earlier(other.at, other.rung), true
			c.remove(other)
			break
		}
	}
	c.sources = append(c.sources, s)
	return s
}

// Set has the source rung at that time, and no more at the time that was set before.
// The zero time clears it. A time that isn't in the future rings at once. On a source that
// is closed it does nothing.
func (s *Source) Set(at time.Time) { s.set(at, false) }

// Hold is Set of a time that counts and doesn't ring: for a part that stores something
// that is due then, and can't do it, as it isn't started, or is about to be closed.
func (s *Source) Hold(at time.Time) { s.set(at, true) }

func (s *Source) set(at time.Time, held bool) {
	c := s.clock
	c.mu.Lock()
	if !s.gone {
		s.at, s.held, s.rung = at, held, time.Time{} // the code that rings told what is left
		c.arm()
	}
	c.mu.Unlock()
	c.tell()
}

// At returns the time that is set or held, the zero time if none is.
func (s *Source) At() time.Time {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.at
}

// Close ends the ringing; ring may still be running when it returns. A lasting source
// leaves its time to the Clock, any other is taken out with it. A second Close does
// nothing.
func (s *Source) Close() {
	c := s.clock
	c.mu.Lock()
	if !s.gone {
		if s.gone = true; s.name == "" {
			c.remove(s)
		} else {
			s.at, s.held, s.rung = earlier(s.at, s.rung), true, time.Time{}
		}
		c.arm()
	}
	c.mu.Unlock()
	c.tell()
}

// remove takes a source out.
//
// +checklocks:c.mu
func (c *Clock) remove(s *Source) {
	c.sources = slices.DeleteFunc(c.sources, func(o *Source) bool { return o == s })
	s.at, s.rung, s.gone = time.Time{}, time.Time{}, true
}

// Next returns the earliest time of all sources, those held and those being rung for
// included; the zero time without one.
func (c *Clock) Next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.earliest()
}

// +checklocks:c.mu
func (c *Clock) earliest() (first time.Time) {
	for _, s := range c.sources {
		first = earlier(earlier(first, s.at), s.rung)
	}
	return first
}

// earlier returns the earlier of two times, of which zero means no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Close stops c, waits until nothing rings any more, and has OnChange told what is left.
// It isn't for ring to call. What is set afterwards never rings, and OnChange isn't
// called for it.
func (c *Clock) Close() {
	c.mu.Lock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.ringing.Wait()
	c.tell()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
}

// arm rings what is due, and sets the timer for what comes next.
//
// +checklocks:c.mu
func (c *Clock) arm() {
	if c.stopped {
		return
	}
	now := c.now().Round(0) // without the monotonic clock, which isn't set back
	back := now.Before(c.seen)
	c.seen = now
	var first time.Time
	for _, s := range c.sources {
		switch {
		case s.held || s.at.IsZero():
		case s.at.After(now) && !back:
			first = earlier(first, s.at)
		default:
			s.rung, s.at = earlier(s.rung, s.at), time.Time{}
			s.start()
		}
	}
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

// start calls ring, or makes the call once more after the one that is under way.
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
	c, done := s.clock, false
	defer func() {
		if !done { // ring has ended the goroutine: another one goes on
			c.ringing.Go(s.run)
		}
	}()
	for {
		s.ring()
		c.mu.Lock()
		if !s.again || s.gone || c.stopped {
			s.running, s.rung, done = false, time.Time{}, true
			c.mu.Unlock()
			c.tell()
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
