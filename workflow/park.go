package workflow

import (
	"context"
	"runtime"
	"time"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A parked is a goroutine that waits.
type parked struct {
	history.Wait
	at    history.Location // of the step, if it waits for Resume
	life  context.Context
	woken chan struct{} // closed when the wait is over
	over  bool          // +checklocks:run.mu
	brief bool          // it counts as active
	stop  func()        // ends the waiting for messages
}

// park returns when what w says may have come, or its time, and leaves if the run is over before. at is where a step waits.
func (c *Context) park(w history.Wait, at history.Location) {
	r := c.r
	w.Since = r.wf.now()
	p := &parked{Wait: w, at: at, life: c.life, woken: make(chan struct{}), stop: func() {}}
	if w.Until != 0 && w.For != history.WaitMessage && r.wf.until(w.Until) <= r.wf.opts.ShortWait {
		p.brief = true
	}
	if w.For == history.WaitMessage {
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
	err := r.wf.opts.Queue.WaitFor(ctx, p.Names...)
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

// rest takes one goroutine out of the number of those that work. When none is left the run
// is idle.
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
		if p.Until != 0 && p.Until <= now {
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
		if p.For == history.WaitResume {
			r.wakeLocked(p)
		}
	}
}

// waiting returns what the run waits for, all goroutines together.
//
// +checklocks:r.mu
func (r *run) waiting() []history.Wait {
	waits := make([]history.Wait, 0, len(r.waits))
	for p := range r.waits {
		waits = append(waits, p.Wait)
	}
	return waits
}

// firstDue returns the earliest time of waits, 0 for none.
func firstDue(waits []history.Wait) (first history.Millis) {
	for _, w := range waits {
		if w.Until != 0 && (first == 0 || w.Until < first) {
			first = w.Until
		}
	}
	return first
}

// arm sets the alarm to the earliest time that a goroutine of the run waits for.
func (r *run) arm() {
	w := r.wf
	w.arming.Lock()
	defer w.arming.Unlock()
	r.mu.Lock()
	first := firstDue(r.waiting())
	over := r.reason != nil || r.ended
	r.mu.Unlock()
	if over {
		return // the goroutine that ends the run sets the alarm
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
