package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// An attempt is one at a step. It takes part in the commit of its result. Its work has a goroutine of its own, which is left alone if
// it doesn't return in time; what it does then has no effect on the workflow any more.
type attempt struct {
	s    *stepCall
	p    place // what the work sees of it, which may go on after the step
	info StepInfo
	out  []byte // encoded
	ctx  context.Context

	mu      sync.Mutex
	given   bool          // up: nothing lands any more  +checklocks:mu
	landing chan struct{} // closed when what is under way is settled, nil for nothing  +checklocks:mu
	landed  bool          // +checklocks:mu
	refused error         // why it did not land  +checklocks:mu
}

// errAttemptOver refuses a landing that comes too late.
var errAttemptOver = errors.New("workflow: the attempt is over")

// give takes the result.
func give[T any](a *attempt, v T) error {
	out, err := a.p.c.r.wf.opts.Codec.Encode(cbor.Typed(v))
	if err != nil {
		return Permanent(fmt.Errorf("workflow: output of %s: %w", a.info.Path, err))
	}
	a.out = out
	return nil
}

// stage has the result land with b.
func (a *attempt) stage(b *batch.Batch) error {
	p := &a.p
	tx := p.c.r.wf.h.Begin()
	if err := p.put(tx, history.Step{Output: a.out}, p.completed()); err != nil {
		return err
	}
	tx.Stage(b)
	b.Enlist(a, a) // behind it, as Late says
	return nil
}

// Late says whether the result may land. From here on the attempt can't be given up before
// it is known whether it does, also when its batch is refused and tried in another form. The
// history, whose Late was called before, hears of that first: the step goes on at once, and
// must find its result there.
func (a *attempt) Late(b *batch.Batch) error {
	if err := a.p.c.mayWrite(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given || context.Cause(a.ctx) == ErrStepTimeout {
		return errAttemptOver
	}
	if a.landing == nil {
		a.landing = make(chan struct{})
	}
	b.OnCommit(func() { a.settled(nil) })
	return nil
}

// Landed does nothing: see Late.
func (a *attempt) Landed() {}

func (a *attempt) Failed(reason error, _ bool) { a.settled(reason) }

// settled notes what has become of the result.
func (a *attempt) settled(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.landed, a.refused = a.landed || err == nil, err; a.landing != nil {
		close(a.landing)
		a.landing = nil
	}
}

// giveUp has nothing land any more, and reports whether something has.
func (a *attempt) giveUp() (landed bool, refused error) {
	for {
		a.mu.Lock()
		wait := a.landing
		if wait == nil {
			a.given = true
			defer a.mu.Unlock()
			return a.landed, a.refused
		}
		a.mu.Unlock()
		<-wait
	}
}

// make does the work, and returns its error; nil if it has a result.
func (a *attempt) make() error {
	s := a.s
	ctx, cancel := context.WithValue(s.c.life, stepKey{}, a.info), context.CancelFunc(nil)
	if s.opts.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, s.opts.Timeout, ErrStepTimeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	a.ctx = ctx
	err := a.watch(ctx)
	if !s.lands {
		return err
	}
	landed, refused := a.giveUp()
	switch {
	case landed: // whatever the work says
		return nil
	case refused != nil && handleFailed(refused):
		s.c.r.halt(storageError(refused))
		leave()
	case err == nil:
		return Permanent(errors.New("workflow: the step has returned, and its result did not land"))
	}
	return err
}

// watch runs the work until it returns, or until its time and the Grace are over.
func (a *attempt) watch(ctx context.Context) error {
	ch := make(chan error, 1)
	go a.work(ctx, ch)
	select {
	case err := <-ch:
		return a.verdict(ctx, err)
	case <-ctx.Done():
	}
	select {
	case err := <-ch:
		return a.verdict(ctx, err)
	case <-time.After(a.s.c.r.wf.opts.Grace):
		a.s.c.r.wf.opts.Logger.Warn("workflow: a step doesn't return after its context is over", "step", a.info.Path)
		if context.Cause(ctx) == ErrStepTimeout {
			return a.timeout()
		}
		return errInFlight
	}
}

// verdict is what an error of the work means.
func (a *attempt) verdict(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == ErrStepTimeout:
		return a.timeout()
	case err != nil && ctx.Err() != nil: // whatever it says: that is most likely why
		return errInFlight
	}
	return err
}

// errInFlight is the error of an attempt that was cut off since the run is over.
var errInFlight = errors.New("workflow: the run has ended")

func (a *attempt) timeout() error {
	return fmt.Errorf("%w after %v", ErrStepTimeout, a.s.opts.Timeout)
}

var errStepGoexit = errors.New("workflow: the step has ended its goroutine (runtime.Goexit)")

// work calls the user's function, and makes errors of what else can become of it.
func (a *attempt) work(ctx context.Context, ch chan<- error) {
	err := errStepGoexit
	w, began := a.p.c.r.wf, time.Now()
	ctx, end := w.traceStep(ctx, a.info)
	defer func() {
		if v := recover(); v != nil {
			p := &panicError{v, debug.Stack()}
			w.opts.Logger.Error("workflow: a step panicked", "step", a.info.Path, "panic", v, "stack", string(p.stack))
			err = p
		}
		end(err)
		countAttempt(w.meter, time.Since(began), err)
		ch <- err
	}()
	do := func(ctx context.Context) error { return a.s.do(ctx, a) }
	if around := w.opts.Around; around != nil {
		err = around(ctx, a.info, do)
	} else {
		err = do(ctx)
	}
}

// settle records what became of the attempt.
func (a *attempt) settle(k history.Step, err error) {
	s := a.s
	r := s.c.r
	if broken := r.wf.actor.Err(); broken != nil {
		r.halt(storageError(broken))
		leave()
	}
	s.wait = 0
	switch {
	case err == nil && s.lands:
		s.entry, s.found = r.wf.h.Get(s.at)
		return
	case err == nil:
		when := soon
		if s.opts.Ephemeral {
			when = withNext
		}
		if err = s.record(history.Step{Output: a.out}, s.completed(), when); err == nil {
			if s.opts.Ephemeral {
				r.draw()
			}
			return
		}
	case errors.Is(err, errInFlight) || errors.Is(err, errLeft):
		a.back(k)
		leave()
	}
	s.fail(&k, err, s.decide(err))
}

// back gives back an attempt that was cut off by the end of the run: it isn't the step's
// fault. If the run may not write any more it counts, as after the end of a process.
func (a *attempt) back(k history.Step) {
	s := a.s
	if s.c.mayWrite() != nil {
		return
	}
	s.m.Attempts--
	s.m.Status = history.StatusPending
	if s.m.Attempts > 0 {
		s.m.Status = history.StatusFailed
	}
	s.must(s.record(k, s.m, s.attempts()))
}
