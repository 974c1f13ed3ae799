// Package limits keeps, in rows of a store, how much of something the actors of the store may do at a time and how often, together: permits
// that are held, a token bucket, and a line of the claimants that wait.
//
// A limit has a name, and a value of the label by which its actors are told apart ("" if they aren't). Each pair of these is a Limit with rows of
// its own. Every change of them checks the limit's record and rewrites it, so that several hosts that use the store see one order of changes, and
// no two of them give the same permit. The changes are kv.Applied: what is done under a permit is stored later, and so is never there without it.
//
// A permit belongs to a part of an actor, not to a host: the actor that a crash interrupts finds the permit that it had, on any host.
//
// Files, from the top down:
//
//	list.go limits.go line.go keys.go bucket.go
package limits

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// mostHeads bounds how many claimants are called at once.
const mostHeads = 64

// Lease is for how long a permit that has an end is held after it was claimed or extended last: Sweep takes it back when it didn't change for that long.
const Lease = 30 * time.Second

// Claim gives c a permit, or a place in the line. It gives one if c had it already, which is exchanged for another one where there is a rate and an until; if c is among the first of the line, and there are as many
// permits to be given; or if there are more than the line is long. Each claim has another until, by which Sweep sees that the permit is held; a zero until is for one that lasts until
// Release, or until Sweep is told that it is of no more use.
//
// Without a bound of concurrency, a permit with an until isn't kept: each claim takes another one from the bucket.
//
// Errors are those of the engine. After kv.ErrUnknownOutcome, Claim again finds what came of it, but a token may be lost.
func (l *Limit) Claim(ctx context.Context, c Claimant, until time.Time) (granted bool, err error) {
	err = l.change(ctx, func(s *state) error {
		granted = false
		held, err := s.held(&c)
		if err != nil {
			return err
		}
		switch {
		case held == nil:
		case l.Rule.Every > 0 && !until.IsZero():
			s.free(held) // what is begun again takes another token
		default:
			granted = true
			if !held.until.Equal(until) {
				s.hold(&c, until)
			}
			return nil
		}
		place, err := s.waiting(&c)
		if err != nil {
			return err
		}
		if granted, err = s.mayHave(&c, place); err != nil {
			return err
		}
		switch {
		case granted:
			if place != nil {
				s.leave(place)
			}
			s.grant(&c, until)
		case place == nil:
			s.join(&c)
		}
		return nil
	})
	return granted && err == nil, err
}

// mayHave says whether there is a permit for c now, which has that place in the line, nil for none.
func (s *state) mayHave(c *Claimant, place *place) (bool, error) {
	room := s.room()
	if room == 0 {
		return false, nil
	}
	heads, err := s.heads(min(room, mostHeads))
	if err != nil {
		return false, err
	}
	if place == nil {
		return len(heads) < min(room, mostHeads), nil
	}
	for i := range heads {
		if heads[i].same(c) {
			return true, nil
		}
	}
	return false, nil
}

// room returns how many permits may be given now.
func (s *state) room() int {
	room := mostHeads
	if n := s.limit.Rule.Concurrency; n > 0 {
		room = min(room, max(n-int(s.record.held), 0))
	}
	if s.limit.Rule.Every > 0 {
		room = min(room, s.limit.Rule.tokens(s.record.spent, s.now.UnixNano()))
	}
	return room
}

// grant takes a token, and counts a permit.
func (s *state) grant(c *Claimant, until time.Time) {
	s.record.last = c.Fair
	if s.limit.Rule.Every > 0 {
		s.record.spent = s.limit.Rule.take(s.record.spent, s.now.UnixNano())
		s.limit.spent, s.limit.by = s.record.spent, *c
	}
	s.changed = true
	if s.limit.Rule.Concurrency > 0 || until.IsZero() {
		s.record.held++
		s.hold(c, until)
	}
}

// Extend makes a permit that c holds last until another time, and reports whether c holds one.
func (l *Limit) Extend(ctx context.Context, c Claimant, until time.Time) (held bool, err error) {
	err = l.change(ctx, func(s *state) error {
		h, err := s.held(&c)
		if held = h != nil; held {
			s.hold(&c, until)
		}
		return err
	})
	return held && err == nil, err
}

// Release gives back the permit of c, if it holds one; with unused, of a permit that Claim has given and under which nothing was begun, its token as well, unless another one was taken since: the
// bucket may have been filled again meanwhile, and a token that is given back then would be one too many.
// waiting says that the line isn't empty.
func (l *Limit) Release(ctx context.Context, c Claimant, unused bool) (waiting bool, err error) {
	err = l.change(ctx, func(s *state) error {
		held, err := s.held(&c)
		if err != nil {
			return err
		}
		if held != nil {
			s.free(held)
		}
		if unused && l.Rule.Every > 0 && l.by == c && l.spent == s.record.spent {
			s.record.spent -= int64(l.Rule.Every)
			s.changed = true
		}
		heads, err := s.heads(1)
		waiting = len(heads) > 0
		return err
	})
	return waiting, err
}

// Join puts c at the end of the line, unless it has a place there or holds a permit, and says whether it did.
func (l *Limit) Join(ctx context.Context, c Claimant) (joined bool, err error) {
	err = l.change(ctx, func(s *state) error {
		joined = false
		held, err := s.held(&c)
		if err != nil || held != nil {
			return err
		}
		place, err := s.waiting(&c)
		if joined = err == nil && place == nil; joined {
			s.join(&c)
		}
		return err
	})
	return joined, err
}

// Leave takes c out of the line, if it has a place there.
func (l *Limit) Leave(ctx context.Context, c Claimant) error {
	return l.change(ctx, func(s *state) error {
		place, err := s.waiting(&c)
		if err == nil && place != nil {
			s.leave(place)
		}
		return err
	})
}

// A Call says which claimants are to claim.
type Call struct {
	Heads   []Head        // those that get permits if they claim now, the first first
	Waiting bool          // the line isn't empty
	Full    bool          // no more permits may be held
	Again   time.Duration // in which time the next token is there; 0 if the bucket is full, or no permits may be held
}

// Call says which claimants are to claim. It changes nothing, unless the clock was set back: then what is left of the wait for tokens begins now.
func (l *Limit) Call(ctx context.Context) (c Call, err error) {
	err = l.change(ctx, func(s *state) (err error) {
		c, err = s.call()
		return err
	})
	return c, err
}

func (s *state) call() (c Call, err error) {
	rule, room := &s.limit.Rule, s.room()
	heads, err := s.heads(max(room, 1))
	if err != nil || len(heads) == 0 {
		return c, err
	}
	c.Waiting = true
	c.Full = rule.Concurrency > 0 && int(s.record.held) >= rule.Concurrency
	if room > 0 {
		c.Heads = heads
	}
	if rule.Every > 0 && !c.Full && room < rule.Burst {
		c.Again = rule.wait(s.record.spent, s.now.UnixNano(), room+1)
	}
	return c, nil
}

// Skip moves a claimant that was called in vain from the head of the line to its end; or, with leave, out of it. If it isn't at that place any more nothing is done.
func (l *Limit) Skip(ctx context.Context, h Head, leave bool) error {
	return l.change(ctx, func(s *state) error {
		place, err := s.waiting(&h.Claimant)
		if err != nil || place == nil || place.Ticket != h.Ticket {
			return err
		}
		s.leave(place)
		if !leave {
			s.join(&place.Claimant)
		}
		return nil
	})
}

// Sweep takes back permits with an end that didn't change for a Lease, as l has seen them, and those without one that dead says are of no more use. Which time the permits say doesn't count, since the
// clocks of hosts differ, and may be set. next is when to look again, zero for never.
func (l *Limit) Sweep(ctx context.Context, dead func(c Claimant) (bool, error)) (next time.Time, err error) {
	now, seen := time.Now(), map[Claimant]sighting{}
	err = l.change(ctx, func(s *state) error {
		next = time.Time{}
		for h, err := range s.allHeld() {
			if err != nil {
				return err
			}
			over := false
			if h.until.IsZero() {
				if over, err = dead(h.Claimant); err != nil {
					return err
				}
			} else {
				at, ok := l.seen[h.Claimant]
				if !ok || !at.until.Equal(h.until) {
					at = sighting{h.until, now}
				}
				seen[h.Claimant] = at
				over = now.Sub(at.since) >= Lease
			}
			switch {
			case over:
				s.free(h)
			case !h.until.IsZero():
				next = now.Add(Lease / 3)
			}
		}
		return nil
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = seen
	}
	return next, err
}

// A sighting is when a permit was seen first as it is, by this process's monotonic clock.
type sighting struct{ until, since time.Time }

// Key returns the key of the record of the limit, which each change changes.
func (l *Limit) Key() []byte { return root.Pack(tuple.Tuple{l.Name, int64(kindRecord), l.Value}) }

// change runs fn on the rows as they are, and commits what it changes, again if another host was first.
func (l *Limit) change(ctx context.Context, fn func(s *state) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		s, err := l.read(ctx)
		if err != nil {
			return err
		}
		if err := fn(s); err != nil || !s.changed {
			return err
		}
		err = l.Engine.Commit(ctx, s.commit())
		if !errors.Is(err, kv.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}
