package workflow

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A wait is what a goroutine of a workflow waits for: any of what is set.
type wait struct {
	until  history.Millis   // 0: no time
	asks   bool             // for a message
	names  []string         // of the message; none: any name
	paused string           // the path of the step that waits for Resume; "" for none
	at     history.Location // of that step
}

// A parked is a goroutine that waits.
type parked struct {
	wait
	life  context.Context
	woken chan struct{} // closed when the wait is over
	over  bool          // +checklocks:run.mu
	brief bool          // it counts as active
	stop  func()        // ends the waiting for messages
}

// park returns when one of the things that it waits for may have come, and leaves if the
// run is over before.
func (c *Context) park(w wait) {
	r := c.r
	p := &parked{wait: w, life: c.life, woken: make(chan struct{}), stop: func() {}}
	if w.until != 0 && !w.asks && r.wf.until(w.until) <= r.wf.opts.ShortWait {
		p.brief = true
	}
	if w.asks {
		ctx, cancel := context.WithCancel(c.life)
		p.stop = cancel
		go r.listen(ctx, p)
	}
	r.mu.Lock()
	r.waits[p] = struct{}{}
	if !p.brief {
		r.rest()
	}
	r.mu.Unlock()
	r.arm()
	select {
	case <-p.woken:
	case <-c.life.Done():
		r.wake(p)
	}
	p.stop()
	c.leaveIfOver()
}

// listen wakes p when a message is visible.
func (r *run) listen(ctx context.Context, p *parked) {
	err := r.wf.opts.Queue.WaitFor(ctx, p.names...)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.halt(storageError(err))
	}
	r.wake(p)
}

// wake ends the waiting of p.
func (r *run) wake(p *parked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked(p)
}

// +checklocks:r.mu
func (r *run) wakeLocked(p *parked) {
	if p.over {
		return
	}
	p.over = true
	delete(r.waits, p)
	if !p.brief {
		r.active++
	}
	close(p.woken)
}

// rest takes one goroutine out of the number of those that work. When nobody works any
// more the run is idle.
//
// +checklocks:r.mu
func (r *run) rest() {
	if r.active--; r.active > 0 || r.reason != nil {
		return
	}
	for p := range r.waits {
		if p.life.Err() != nil { // it has lost a race, and is about to leave
			r.wakeLocked(p)
		}
	}
	if r.active > 0 {
		return
	}
	if !r.live {
		r.haltLocked(errIdle)
		return
	}
	select {
	case r.idle <- struct{}{}:
	default: // it is known
	}
}

// wakeDue wakes those whose time has come.
func (r *run) wakeDue() {
	now := r.wf.now()
	r.mu.Lock()
	for p := range r.waits {
		if p.until != 0 && p.until <= now {
			r.wakeLocked(p)
		}
	}
	r.mu.Unlock()
	r.arm()
}

// wakePaused wakes those that wait for Resume.
func (r *run) wakePaused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.waits {
		if p.paused != "" {
			r.wakeLocked(p)
		}
	}
}

// waiting returns what the run waits for, all goroutines together: the earliest time, and
// all names.
//
// +checklocks:r.mu
func (r *run) waiting(s *Status) {
	s.Until, s.Names, s.AnyName, s.Paused = time.Time{}, nil, false, nil
	for p := range r.waits {
		if at := p.until.Time(); p.until != 0 && (s.Until.IsZero() || at.Before(s.Until)) {
			s.Until = at
		}
		if p.asks {
			s.AnyName = s.AnyName || len(p.names) == 0
			s.Names = append(s.Names, p.names...)
		}
		if p.paused != "" {
			s.Paused = append(s.Paused, p.paused)
		}
	}
	slices.Sort(s.Names)
	s.Names = slices.Compact(s.Names)
	slices.Sort(s.Paused)
}

// arm sets the alarm to the first time that somebody waits for.
func (r *run) arm() {
	w := r.wf
	w.arming.Lock()
	defer w.arming.Unlock()
	r.mu.Lock()
	var first history.Millis
	for p := range r.waits {
		if p.until != 0 && (first == 0 || p.until < first) {
			first = p.until
		}
	}
	over := r.reason != nil || r.ended
	r.mu.Unlock()
	if over {
		return // whoever ends the run sets the alarm
	}
	if first == 0 {
		w.source.Set(time.Time{})
	} else {
		w.source.Set(first.Time())
	}
}

// leave ends the goroutine that runs a workflow's code. No recover stops it, and what the
// code has deferred meets it again in every method of its Context.
func leave() { runtime.Goexit() }
