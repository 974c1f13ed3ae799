package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// An Action is what an event calls. It has succeeded when it returns nil; after an error,
// or a panic, it is called again later. Its context ends when the Record is closed.
type Action func(ctx context.Context, f *Firing) error

// A Firing is one call of an action. It is the action's own until that returns, and not
// safe for concurrent use.
type Firing struct {
	// Event is why the action is called.
	Event Event
	// Attempt counts the calls for this event, from 1.
	Attempt int

	s     *Schedule
	e     *event
	asked int             // Schedule.asked, when it began
	ctx   context.Context // of the action
	batch batch.Batch
}

// Batch is what lands with the end of the event: whatever the action stages here is
// committed together with the event's removal, when the action has returned nil, and is
// given up if it doesn't.
func (f *Firing) Batch() *batch.Batch { return &f.batch }

// rawArg is an argument that isn't decoded.
type rawArg []byte

// UnmarshalCBOR keeps the bytes.
func (a *rawArg) UnmarshalCBOR(b []byte) error {
	*a = cbor.Keep(b)
	return nil
}

// Arg decodes the argument of that number, from 0, into what v points to. Without such
// an argument v stays as it is.
func (f *Firing) Arg(i int, v any) error { return f.Event.Arg(i, v) }

// Arg is Firing.Arg of an event that isn't fired yet.
func (e *Event) Arg(i int, v any) error {
	if e.Args == nil {
		return nil
	}
	var args []rawArg
	err := cbor.Unmarshal(e.Args, &args)
	if err == nil && i >= 0 && i < len(args) {
		err = cbor.Unmarshal(args[i], v)
	}
	if err != nil {
		return fmt.Errorf("persist: argument %d of %.80q: %w", i, e.Action, err)
	}
	return nil
}

// Start begins to call actions; lookup returns the one of a name, nil for none: an event
// that names it stays as it is, and is logged once (see Reconsider). What is overdue runs
// at once. The values of ctx are those of the actions' contexts; its end stops the
// schedule, which can then be started again. One that is started, or whose record is being
// closed, is ErrStarted.
func (s *Schedule) Start(ctx context.Context, lookup func(action string) Action) error {
	r := s.r
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	if s.stopped || s.ctx != nil && s.ctx.Err() == nil {
		r.mu.Unlock()
		return ErrStarted
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.lookup = lookup
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.reconsider() // also what was set aside because the start before had ended
	r.mu.Unlock()
	s.arming.Lock()
	r.mu.Lock()
	stopped := s.stopped
	r.mu.Unlock()
	if !stopped && s.source == nil { // else no stop would take the source away again
		s.source = s.clock.Source(s.ring)
	}
	s.arming.Unlock()
	s.arm()
	return nil
}

// arm sets the alarms to what is next. It is called after every change, by hooks, too.
func (s *Schedule) arm() {
	s.arming.Lock()
	defer s.arming.Unlock()
	s.r.mu.Lock()
	stored, at := s.next((*event).waiting), time.Time{}
	if s.source != nil && !s.over() {
		at = s.next((*event).idle)
	}
	s.r.mu.Unlock()
	s.stored.Hold(stored)
	if s.source != nil {
		s.source.Set(at)
	}
}

// ring is called by the alarm: it runs everything that is due.
func (s *Schedule) ring() {
	for {
		f, lookup := s.begin()
		if f == nil {
			break
		}
		if action := lookup(f.Event.Action); action != nil {
			s.run(f, action)
		} else {
			s.setAside(f)
		}
	}
	s.arm()
}

// setAside ends what begin began, for an event without an action: it isn't due until
// Reconsider, or another Record, finds one. Nothing of that is stored.
func (s *Schedule) setAside(f *Firing) {
	r, e := s.r, f.e
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ran(e)
	if s.over() {
		return // lookup may have ended with it
	}
	if s.asked != f.asked {
		return // there may be an action by now
	}
	e.aside = true
	if _, known := s.missing[e.action]; !known {
		s.missing[e.action] = struct{}{}
		r.log.Warn("persist: there is no action of that name: its events stay", slog.String("action", e.action))
	}
}

// Reconsider looks again for the actions that were missing when an event was due, for a
// caller whose lookup returns more than it did. An event whose action is missing is not
// waited for (see Options.Clock), and costs nothing.
func (s *Schedule) Reconsider() {
	s.r.mu.Lock()
	s.reconsider()
	s.r.mu.Unlock()
	s.arm()
}

// +checklocks:s.r.mu
func (s *Schedule) reconsider() {
	s.asked++
	for _, e := range s.r.events {
		e.aside = false
	}
}

// ran notes that an event doesn't run any more.
//
// +checklocks:s.r.mu
func (s *Schedule) ran(e *event) {
	e.running = false
	close(s.idle)
}

// begin takes the next event that is due, and marks that it runs. lookup returns its action.
func (s *Schedule) begin() (f *Firing, lookup func(action string) Action) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.over() {
		return nil, nil
	}
	now := s.clock.Now().UnixMilli()
	for _, e := range r.events {
		if e.at > now {
			break // so are those behind it
		}
		if e.idle() && e.due() <= now {
			e.running = true
			s.idle = make(chan struct{})
			return &Firing{Event: e.export(), Attempt: int(e.attempts) + 1, s: s, e: e, asked: s.asked, ctx: s.ctx}, s.lookup
		}
	}
	return nil, nil
}

// over says that nothing is run any more.
//
// +checklocks:s.r.mu
func (s *Schedule) over() bool { return s.stopped || s.ctx.Err() != nil || s.r.usable() != nil }

// run calls the action of an event and does what follows, also if the action ends the goroutine.
func (s *Schedule) run(f *Firing, action Action) {
	began := time.Now()
	// What follows is to be stored even if the schedule is being stopped.
	ctx := context.WithoutCancel(f.ctx)
	err := s.countFirst(ctx, f.e)
	if err == nil {
		err = errGoexit // unless it returns
	}
	defer func() { s.concluded(ctx, f, err, began) }()
	if err == errGoexit {
		err = guard(func() error { return action(f.ctx, f) })
	}
}

// concluded follows the end of an action.
func (s *Schedule) concluded(ctx context.Context, f *Firing, err error, began time.Time) {
	r := s.r
	if err == nil {
		if err = r.In(&f.batch).Done(f); err == nil {
			err = r.commit(ctx, &f.batch)
		}
	}
	f.batch.Abort(err) // settled already if it has landed
	if err == nil {
		r.meter.Count(metricEventsDone, 1)
		r.meter.Observe(metricEventTime, time.Since(began))
	} else {
		r.meter.Count(metricEventsFailed, 1)
		s.failed(ctx, f, err)
	}
	r.mu.Lock()
	s.ran(f.e)
	r.mu.Unlock()
}

// Missing reports whether there are events whose action is missing: for a caller that must
// open the actor again when it may be there.
func (s *Schedule) Missing() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return slices.ContainsFunc(s.r.events, func(e *event) bool { return e.aside })
}

// errGoexit is what an action fails with that ends its goroutine.
var errGoexit = errors.New("persist: the action called runtime.Goexit")

// errCutOff is what an attempt has failed with if the process ended before the action did.
var errCutOff = errors.New("persist: the process ended during the last attempt")

// countFirst notes that an action is going to be called, if that is wanted: as an attempt
// that failed, until something else is known of it.
func (s *Schedule) countFirst(ctx context.Context, e *event) error {
	r := s.r
	if !r.opts.CountFirst {
		return nil
	}
	r.mu.Lock()
	if r.opts.MaxAttempts > 0 && int(e.attempts) >= r.opts.MaxAttempts {
		r.mu.Unlock()
		return errCutOff // and nothing ends the process this time
	}
	e.attempts++
	e.problem = errCutOff.Error()
	s.postpone(e)
	r.mu.Unlock()
	return s.commitNote(ctx, e)
}

// postpone sets the time of the next attempt.
//
// +checklocks:s.r.mu
func (s *Schedule) postpone(e *event) {
	o := &s.r.opts
	e.notBefore = s.clock.Now().Add(backoff(int(e.attempts)-1, o.RetryMin, o.RetryMax)).UnixMilli()
}

// failed counts an attempt, and says when the next one is. The event stays in memory
// with that even if it can't be stored: what matters of it is.
func (s *Schedule) failed(ctx context.Context, f *Firing, cause error) {
	r, e := s.r, f.e
	r.mu.Lock()
	if r.usable() != nil {
		r.mu.Unlock()
		return // nothing can be stored, and what was is tried again by the next owner
	}
	if !contains(r.events, e) {
		r.mu.Unlock()
		r.log.Error("persist: action failed after the end of its event", s.about(e, cause)...)
		return
	}
	if !r.opts.CountFirst {
		e.attempts++
	}
	e.problem = cause.Error()
	given := r.opts.MaxAttempts > 0 && int(e.attempts) >= r.opts.MaxAttempts
	e.parked = given && e.times == nil
	s.postpone(e)
	r.mu.Unlock()
	r.log.Error("persist: action failed", append(s.about(e, cause), slog.Int("attempt", f.Attempt))...)
	var err error
	if given {
		r.meter.Count(metricEventsParked, 1)
	}
	if given && e.times != nil { // there is a next time for it
		var b batch.Batch
		if err = r.In(&b).end(e); err == nil {
			err = r.commit(ctx, &b)
		}
	} else {
		err = s.commitNote(ctx, e)
	}
	if err != nil {
		r.log.Error("persist: note a failed action", s.about(e, err)...)
	}
}

func (s *Schedule) about(e *event, err error) []any {
	return []any{slog.String("event", e.id), slog.String("action", e.action), slog.Any("error", err)}
}

// commitNote stores what is noted about an event that is there still.
func (s *Schedule) commitNote(ctx context.Context, e *event) error {
	var b batch.Batch
	err := s.r.In(&b).change(func(t *Tx) error {
		if !contains(t.events, e) {
			return nil
		}
		e.noted = true
		return t.note(e)
	})
	if err != nil {
		return err
	}
	return s.r.commit(ctx, &b)
}

// guard calls fn and turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = errors.New(fmt.Sprint(p))
			}
			err = fmt.Errorf("%w: %w\n%s", ErrPanic, cause, debug.Stack())
		}
	}()
	return fn()
}

// backoff returns least·2ⁿ, at most most.
func backoff(n int, least, most time.Duration) time.Duration {
	for ; n > 0 && least < most; n-- {
		least *= 2
	}
	return min(least, most)
}

func contains(events []*event, e *event) bool {
	for _, o := range events {
		if o == e {
			return true
		}
		if o.at > e.at {
			return false
		}
	}
	return false
}
