package workflow

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Step does a piece of work and records its result: the work is done until it has
// succeeded once, and later runs return what was recorded. Whatever has an effect outside
// the workflow, or an outcome that is not always the same, belongs in a step.
//
// fn may be called more than once: when it fails, as StepOptions say, and when the process
// ends while it runs. Its context is over when the attempt has taken too long or the run
// ends; it should return then. StepInfoOf tells it which attempt it is. A panic is an error.
//
// The value that Step returns is decoded from what is recorded, so that it is the same in
// every run. A step that fails for good returns a *StepError; with the work, the whole
// step can be left to the code: it may go on, or return the error.
func Step[T any](c *Context, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	return StepWith(c, name, nil, fn)
}

// StepWith is Step with options; nil opts are the zero StepOptions.
func StepWith[T any](c *Context, name string, opts *StepOptions, fn func(ctx context.Context) (T, error)) (T, error) {
	return stepOf[T](c, name, opts, false, func(ctx context.Context, a *attempt) error {
		v, err := fn(ctx)
		if err != nil {
			return err
		}
		return give(a, v)
	})
}

// Do is Step for work without a result.
func Do(c *Context, name string, fn func(ctx context.Context) error) error {
	return DoWith(c, name, nil, fn)
}

// DoWith is Do with options.
func DoWith(c *Context, name string, opts *StepOptions, fn func(ctx context.Context) error) error {
	_, err := c.step(name, opts, false, func(ctx context.Context, a *attempt) error { return fn(ctx) })
	return err
}

// StepWithin is Step for work whose effect is in the actor, and which ends with a commit of
// its own, such as that of a SQL transaction: land has the step's result land with b, or not
// at all. So SQL is done exactly once:
//
//	workflow.StepWithin(c, "book", func(ctx context.Context, land func(*batch.Batch, int64) error) error {
//		return db.Update(ctx, func(tx *vfs.Tx) error {
//			res, err := tx.ExecContext(ctx, "insert into bookings …")
//			…
//			return land(tx.Batch(), id)
//		})
//	})
//
// fn calls land once, and commits b before it returns. If b doesn't land the attempt fails.
// b is refused if the attempt took too long.
func StepWithin[T any](c *Context, name string, fn func(ctx context.Context, land func(*batch.Batch, T) error) error) (T, error) {
	return StepWithinWith(c, name, nil, fn)
}

// StepWithinWith is StepWithin with options.
func StepWithinWith[T any](c *Context, name string, opts *StepOptions,
	fn func(ctx context.Context, land func(*batch.Batch, T) error) error) (T, error) {

	return stepOf[T](c, name, opts, true, func(ctx context.Context, a *attempt) error {
		return fn(ctx, func(b *batch.Batch, v T) error {
			if err := give(a, v); err != nil {
				return err
			}
			return a.stage(b)
		})
	})
}

// stepIn is StepWithin for what fn stages in b, which is committed here.
func stepIn[T any](c *Context, name string, opts *StepOptions, fn func(ctx context.Context, b *batch.Batch) (T, error)) (T, error) {
	return StepWithinWith(c, name, opts, func(ctx context.Context, land func(*batch.Batch, T) error) error {
		var b batch.Batch
		defer b.Abort(nil)
		v, err := fn(ctx, &b)
		if err == nil {
			err = land(&b, v)
		}
		if err != nil {
			return err
		}
		return c.r.wf.actor.Commit(context.WithoutCancel(ctx), &b)
	})
}

// stepOf is a step with a result.
func stepOf[T any](c *Context, name string, opts *StepOptions, lands bool,
	do func(context.Context, *attempt) error) (v T, err error) {

	out, err := c.step(name, opts, lands, do)
	if err != nil {
		return v, err
	}
	if err := c.r.wf.opts.Codec.Decode(out, &v); err != nil {
		i, _ := c.r.wf.h.Lookup(name)
		c.r.halt(diverged(c.r.wf.h.Path(c.scope.Name(i)), fmt.Sprintf("its output is no %T: %v", v, err)))
		leave()
	}
	return v, nil
}

// A stepCall is one call of a step.
type stepCall struct {
	*place
	opts StepOptions
	do   func(context.Context, *attempt) error
	// lands says that the result lands with a commit of the work's own.
	lands bool
	m     history.Metadata
	// wait is how long Retry said to wait after the last attempt; 0 for nothing.
	wait time.Duration
}

// step returns the encoded output of a step, or a *StepError.
func (c *Context) step(name string, opts *StepOptions, lands bool, do func(context.Context, *attempt) error) ([]byte, error) {
	p := c.enter(name)
	defer c.end()
	s := &stepCall{place: p, do: do, lands: lands}
	var err error
	if s.opts, err = opts.check(); err != nil {
		c.misuse(name, err.Error())
	}
	if !s.opts.Undo.isZero() && !c.r.isGuarded() {
		c.misuse(name, "it has an Undo and no RollbackCheckpoint before it")
	}
	for {
		k, _ := kind[history.Step](p)
		s.m = p.status()
		switch s.m.Status {
		case history.StatusCompleted:
			c.r.collect(s, k.Output)
			return k.Output, nil
		case history.StatusExhausted:
			return nil, s.failed(k)
		}
		if c.r.undoing != nil {
			c.stopCollecting()
		}
		s.try(k)
	}
}

// try brings the step one attempt further, or to its end.
func (s *stepCall) try(k history.Step) {
	if s.usedUp() {
		s.exhaust(k)
		return
	}
	if at := s.retryAt(); at > s.c.r.wf.now() {
		s.park(history.WaitAttempt, at)
		return
	}
	s.m.Status, s.m.Attempts, s.m.LastAttemptAt = history.StatusRunning, inc(s.m.Attempts), s.c.r.wf.now()
	s.must(s.record(k, s.m, s.attempts()))
	if s.attempts() == withNext {
		s.c.settleDrawn()
	}
	a := &attempt{s: s, p: *s.place, info: StepInfo{s.path(), s.entry.ID, s.m.Attempts}}
	err := a.make()
	a.settle(k, err)
}

// attempts returns when attempts are recorded.
func (s *stepCall) attempts() when {
	if s.opts.Unrecorded || s.opts.Ephemeral {
		return withNext
	}
	return atOnce
}

// park waits, and adopts what another caller made of the step meanwhile.
func (s *stepCall) park(what history.WaitKind, until history.Millis) {
	w := history.Wait{For: what, Path: s.path(), Until: until}
	if s.m.Error != nil {
		w.Error = s.c.r.wf.failures.parse(*s.m.Error).Message
	}
	s.c.park(w, s.at)
	s.entry, s.found = s.c.r.wf.h.Get(s.at)
}

func inc(n uint32) uint32 {
	if n < math.MaxUint32 {
		n++
	}
	return n
}

// usedUp says whether there are no attempts left. One that ended with its process counts.
func (s *stepCall) usedUp() bool {
	if s.m.Attempts == 0 {
		return false
	}
	if n := s.opts.MaxAttempts; n > 0 && s.m.Attempts >= uint32(n) {
		return true
	}
	most := s.opts.MaxElapsed
	return most > 0 && s.m.CreatedAt.Time().Add(most).Before(s.c.r.wf.now().Time())
}

// exhaust ends a step whose attempts are used up, or waits until there are more.
func (s *stepCall) exhaust(k history.Step) {
	if s.opts.Pause {
		if s.m.Status == history.StatusRunning { // it was interrupted
			s.fail(&k, ErrInterrupted, history.StatusFailed)
			return
		}
		s.park(history.WaitResume, 0)
		return
	}
	err := error(ErrInterrupted)
	if s.m.Status == history.StatusFailed && s.m.Error != nil {
		err = s.c.r.wf.failures.parse(*s.m.Error)
	}
	s.fail(&k, err, history.StatusExhausted)
}

// fail records the end of an attempt that has failed.
func (s *stepCall) fail(k *history.Step, err error, status history.Status) {
	text := s.c.r.wf.failures.of(err).text()
	k.Error, k.Output = &text, nil
	s.m.Error, s.m.Status = &text, status
	if s.wait != 0 && status == history.StatusFailed {
		// The wait that follows from the time of the attempt is then the one that was said.
		s.m.LastAttemptAt = history.MillisOf(s.m.LastAttemptAt.Time().Add(s.wait - s.backoff()))
	}
	s.must(s.record(*k, s.m, atOnce))
}

// failed returns the recorded error of a step that has failed for good.
func (s *stepCall) failed(k history.Step) error {
	f := &Failure{Message: "failed"}
	if k.Error != nil {
		f = s.c.r.wf.failures.parse(*k.Error)
	}
	return &StepError{s.path(), s.m.Attempts, f}
}

// retryAt is when the next attempt is due. No wait is longer than one can be, whatever the
// clock was at the last attempt.
func (s *stepCall) retryAt() history.Millis {
	now := s.c.r.wf.now()
	if s.m.Attempts == 0 {
		return now
	}
	at := history.MillisOf(s.m.LastAttemptAt.Time().Add(s.backoff()))
	return min(at, history.MillisOf(now.Time().Add(s.opts.MaxBackoff)))
}

// backoff is the wait after the last attempt.
func (s *stepCall) backoff() time.Duration {
	d := s.opts.Backoff
	for i := uint32(1); i < s.m.Attempts && d < s.opts.MaxBackoff && d > 0; i++ {
		d *= 2
	}
	d = min(d, s.opts.MaxBackoff)
	if s.opts.Jitter > 0 {
		h := fnv.New64a()
		fmt.Fprint(h, s.entry.ID, " ", s.m.Attempts)
		// The high bits of FNV differ little between numbers; a multiplication mixes them.
		part := float64(h.Sum64()*0x9e3779b97f4a7c15>>11) / (1 << 53)
		d -= time.Duration(float64(d) * s.opts.Jitter * part)
	}
	return d
}

// decide says what becomes of a step whose attempt has failed.
func (s *stepCall) decide(err error) history.Status {
	switch {
	case final(err), errors.Is(err, ErrStepTimeout) && !s.opts.RetryTimeouts:
		return history.StatusExhausted
	case s.usedUp():
		if s.opts.Pause {
			return history.StatusFailed
		}
		return history.StatusExhausted
	case s.opts.Retry == nil:
		return history.StatusFailed
	}
	delay, again := s.opts.Retry(err, s.m.Attempts)
	if !again {
		return history.StatusExhausted
	}
	if s.wait = 0; delay > 0 {
		s.wait = min(delay, s.opts.MaxBackoff)
	}
	return history.StatusFailed
}
