package conn

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Between failed saves that nobody asked for are a second, two, four, up to a minute.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// schedule says when the next save is. All fields are guarded by the Set's lock.
type schedule struct {
	due   time.Time // zero: none is planned
	last  time.Time // when the last one started
	fails int       // how many have failed in a row
	retry time.Time // not before that
}

// arm plans a save: an interval after the start of the last one, but within wait. One
// that is planned already is replaced only by an earlier one.
//
// +checklocks:s.mu
func (s *Set) arm(wait time.Duration) {
	if s.closing || s.actor.Err() != nil {
		return
	}
	p, now := &s.schedule, s.clock.Now()
	at := now.Add(wait)
	if next := p.last.Add(s.opts.Interval); next.Before(at) {
		at = next
	}
	if at.Before(now) {
		at = now
	}
	if at.Before(p.retry) {
		at = p.retry
	}
	s.plan(at)
}

// plan plans a save, unless an earlier one is.
//
// +checklocks:s.mu
func (s *Set) plan(at time.Time) {
	if p := &s.schedule; p.due.IsZero() || at.Before(p.due) {
		p.due = at
		s.saver.Set(at)
	}
}

// due is called by the clock when a save is due.
func (s *Set) due() {
	s.mu.Lock()
	s.schedule.due = time.Time{}
	idle := s.closing || !s.pending()
	if !idle {
		s.schedule.last = s.clock.Now() // whatever Options.Save does
	}
	s.mu.Unlock()
	if idle {
		return
	}
	save := s.opts.Save
	if save == nil {
		save = s.Save
	}
	err := save(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !s.pending() && !s.ended(err) { // else it was not about connections
		if s.pending() {
			s.arm(s.opts.Interval)
		}
		return
	}
	p := &s.schedule
	p.fails++
	p.retry = s.clock.Now().Add(min(firstRetry<<min(p.fails-1, 16), lastRetry))
	s.opts.Logger.Warn("connections could not be saved",
		"actor", s.actor.ID().String(), "failures", p.fails, "error", err)
	if !s.closing && !s.ended(err) {
		p.due = time.Time{} // what was planned meanwhile must wait as well
		s.plan(p.retry)
	}
}

// failed counts a save that has failed, and tells the deletes that were in it.
func (s *Set) failed(ctx context.Context, err error, only *Conn) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return // nobody waits for it any more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if only == nil {
		s.count(metricSaveFailures, 1)
	}
	for _, c := range s.deletes {
		if only == nil || c == only {
			c.tries++
			c.deleteErr = err
			s.count(metricDeleteFailures, 1)
		}
	}
}

// ended reports whether err says that the actor will never write again for this Set.
func (s *Set) ended(err error) bool {
	return s.actor.Err() != nil || errors.Is(err, actorstore.ErrClosed)
}
