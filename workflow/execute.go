package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Status returns how far the workflow is.
func (w *Workflow) Status() Status {
	w.mu.Lock()
	r := w.run
	w.mu.Unlock()
	stored := w.h.Waiting()
	s, waits := Status{State: State(stored.State)}, stored.Waits()
	if f := w.h.Failure(); f != nil {
		s.Failure = w.failure(f)
	}
	if r != nil && !over(s.State) {
		r.mu.Lock()
		active := r.active > 0
		waits = r.waiting()
		r.mu.Unlock()
		stored.Began(waits)
		if active && s.State == Sleeping {
			s.State = Running
		}
		if active {
			waits = append(waits, toRun...)
		}
	}
	s.Waits = each(waits, waitOf)
	s.summarize()
	return s
}

// failure returns a stored error.
func (w *Workflow) failure(f *history.Failure) *Failure {
	code := f.Name
	if code == plainError {
		code = ""
	}
	return w.failures.known(&Failure{Code: code, Message: f.Message})
}

// plainError is the name of an error without a code.
const plainError = "Error"

// start stores the input, with land.
func (w *Workflow) start(ctx context.Context, input []byte, land func(*history.Tx, context.Context) error) error {
	for err := w.claim(); err != nil; err = w.claim() {
		if !errors.Is(err, ErrRunning) {
			return err
		}
		if w.h.Input() != nil {
			return Over(State(w.h.State())) // it may have been cancelled, or have returned, a moment ago
		}
		// Without an input it is busy for a moment: a run finds that, or another start stores one.
		w.mu.Lock()
		if w.busy {
			w.idle.Wait()
		}
		w.mu.Unlock()
	}
	defer w.release()
	if err := (rereading{w}).ifStale(ctx); err != nil {
		return err
	}
	if err := Over(State(w.h.State())); err != nil || w.h.Input() != nil {
		return err
	}
	tx := w.h.Begin()
	err := tx.SetInput(input)
	if err == nil {
		err = land(tx, ctx)
	}
	if err != nil {
		if large := tooLarge(err); large != nil {
			return large
		}
		return w.broken(err)
	}
	w.meter.Count(metricStarted, 1)
	w.arming.Lock()
	defer w.arming.Unlock()
	w.due(w.clock.Now())
	return nil
}

// broken returns an ErrStorage, and makes the next run read the store again.
func (w *Workflow) broken(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
	if errors.Is(err, history.ErrCancelled) {
		return ErrCancelled
	}
	return storageError(err)
}

// execute runs the workflow.
func (w *Workflow) execute(ctx context.Context, live bool) (Status, error) {
	if w.fn == nil {
		return w.Status(), fmt.Errorf("%w: it was attached without its code", ErrState)
	}
	if err := w.claim(); err != nil {
		return w.Status(), err
	}
	err := errAgain
	for err == errAgain {
		if err = ctx.Err(); err != nil { // an input may wait for a commit
			err = cmp.Or(rereading{w}.ifStale(context.WithoutCancel(ctx)), w.record(ctx, nothing), evicted(ctx))
		} else {
			err = w.once(ctx, live)
		}
	}
	if err == ErrCancelled { // which is a state like others
		err = nil
	}
	w.release()
	w.rest(err)
	return w.Status(), err
}

// errAgain says that the workflow continues as new.
var errAgain = errors.New("workflow: again")

// rest sets the alarm after a run.
func (w *Workflow) rest(err error) {
	w.arming.Lock()
	defer w.arming.Unlock()
	w.mu.Lock()
	until, busy := w.rested, w.busy
	w.mu.Unlock()
	switch {
	case busy: // another caller runs it again, and sets it
	case !w.unfinished():
		w.due(time.Time{})
	case err == nil:
		w.due(until)
	case errors.Is(err, errRollback):
		w.due(w.clock.Now().Add(defaultMaxBackoff))
	case errors.Is(err, ErrDiverged), errors.Is(err, ErrMisuse), errors.Is(err, ErrHistoryFull):
		w.due(w.clock.Now().Add(otherCode)) // which may be there by then
	case until.IsZero():
		w.source.Hold(w.clock.Now())
	default:
		w.source.Hold(until)
	}
}

// once makes one run.
func (w *Workflow) once(ctx context.Context, live bool) (err error) {
	ctx, end := w.traceRun(ctx, live)
	defer func() {
		if err == errAgain {
			end(nil)
		} else {
			end(err)
		}
	}()
	w.mu.Lock()
	w.rested = time.Time{}
	w.mu.Unlock()
	if err := (rereading{w}).ifStale(ctx); err != nil {
		return err
	}
	if w.h.Input() == nil && w.h.State() != history.Cancelled {
		return ErrNotStarted
	}
	switch w.h.State() {
	case history.Cancelled, history.Completed, history.Failed:
		return nil
	case history.RollingBack:
		return w.rollBack(ctx)
	}
	if err := w.actor.Owned(ctx); err != nil {
		return w.broken(err)
	}
	r := w.newRun(ctx, live)
	defer r.kill(ErrEvicted)
	w.setRun(r)
	r.start(w.h.Input())
	r.wait(ctx)
	r.shut.Store(true)
	w.setRun(nil)
	return w.outcome(ctx, r)
}

// A rereading is a Workflow that is claimed, and whose memory may be ahead of the store.
type rereading struct{ *Workflow }

// ifStale reads the store again if that is so: what a run that failed had deferred isn't wanted.
func (w rereading) ifStale(ctx context.Context) error {
	w.mu.Lock()
	stale := w.stale
	w.mu.Unlock()
	if !stale {
		return nil
	}
	if err := w.h.Reload(ctx); err != nil {
		return w.broken(err)
	}
	w.mu.Lock()
	w.stale = false
	w.mu.Unlock()
	return nil
}

// outcome records how a run ended.
func (w *Workflow) outcome(ctx context.Context, r *run) error {
	r.owing.timer.Stop()
	defer r.owing.lock()()
	r.mu.Lock()
	reason, ended, out, err := r.reason, r.ended, r.out, r.err
	waits, due := r.rested, r.due
	r.mu.Unlock()
	if !ended && (reason == errIdle || reason == ErrEvicted) {
		w.setRested(due)
	}
	var renew renewal
	switch {
	case ended && err == nil:
		return w.complete(ctx, r, out)
	case ended:
		return w.fail(ctx, r, err)
	case reason == errIdle:
		return w.record(ctx, sleeping(w.h, waits))
	case reason == ErrEvicted:
		return cmp.Or(w.record(ctx, nothing), evicted(ctx))
	case errors.As(reason, &renew):
		return w.renew(ctx, renew.input)
	}
	if !r.owing.stored() && reason != ErrCancelled && !errors.Is(reason, ErrStorage) {
		if err := w.record(ctx, nothing); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.stale = true // what was deferred isn't wanted
	w.mu.Unlock()
	if reason == ErrCancelled {
		return nil
	}
	return reason
}

func (w *Workflow) setRested(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rested = due
}

// evicted is the error of a run that was stopped, by the end of ctx if it is over.
func evicted(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrEvicted
	}
	return fmt.Errorf("%w: %w", ErrEvicted, context.Cause(ctx))
}

// sleeping returns the change that the workflow waits, and for what: none if that is recorded.
func sleeping(h *history.History, waits []history.Wait) func(tx *history.Tx) error {
	h.Waiting().Began(waits)
	return func(tx *history.Tx) error {
		err := tx.SetState(history.Sleeping)
		if err == nil {
			err = tx.SetWaits(waits)
		}
		if large := tooLarge(err); large != nil {
			return misused(".", large.Error())
		}
		return err
	}
}

// nothing changes nothing: what was deferred is committed.
func nothing(*history.Tx) error { return nil }

// record commits what fn changes, and what was deferred.
func (w *Workflow) record(ctx context.Context, fn func(tx *history.Tx) error) error {
	tx := w.h.Begin()
	err := fn(tx)
	if err == nil {
		err = tx.Commit(context.WithoutCancel(ctx))
	}
	if err == nil || errors.Is(err, ErrMisuse) {
		return err
	}
	return w.broken(err)
}

// end records the end of a workflow: change is made, and messages are given back. One that
// is over already is ErrState. why is the error by which the workflow has failed, nil if it hasn't.
func (w *Workflow) end(ctx context.Context, change func(tx *history.Tx) error, why error) error {
	tx := w.h.Begin()
	if err := change(tx); err != nil {
		return err
	}
	var b batch.Batch
	defer b.Abort(nil)
	b.Late(func(b *batch.Batch) error {
		if s := w.h.State(); s == history.Completed || s == history.Failed {
			return fmt.Errorf("%w: it is %v", ErrState, s)
		}
		return w.giveBack(context.WithoutCancel(ctx), b, "", why)
	})
	tx.Stage(&b)
	return w.actor.Commit(ctx, &b)
}

// complete records the output.
func (w *Workflow) complete(ctx context.Context, r *run, out []byte) error {
	err := w.end(context.WithoutCancel(ctx), func(tx *history.Tx) error {
		err := tx.SetOutput(out)
		if err == nil {
			err = tx.SetState(history.Completed)
		}
		return err
	}, nil)
	if large := tooLarge(err); large != nil {
		return w.fail(ctx, r, large)
	}
	if err != nil {
		return w.broken(err)
	}
	w.meter.Count(metricCompleted, 1)
	return nil
}

// fail records the error, and undoes what was done.
func (w *Workflow) fail(ctx context.Context, r *run, cause error) error {
	f := w.failures.of(cause)
	stored := &history.Failure{Name: f.Code, Message: short(f.Message)}
	if f.Code == "" {
		stored.Name = plainError
	}
	var p *panicError
	if errors.As(cause, &p) {
		stored.Stack = strings.ToValidUTF8(string(p.stack), "?")
	}
	to := history.Failed
	if r.isGuarded() {
		to = history.RollingBack
	}
	err := w.end(context.WithoutCancel(ctx), func(tx *history.Tx) error {
		err := tx.SetError(stored)
		if err == nil {
			err = tx.SetState(to)
		}
		return err
	}, errkind.WithCode(f.Code, cause))
	if err != nil {
		return w.broken(err)
	}
	if to == history.RollingBack {
		return w.rollBack(ctx)
	}
	w.meter.Count(metricFailed, 1)
	return nil
}

// rollBack undoes what was done, and records that the workflow has failed.
func (w *Workflow) rollBack(ctx context.Context) error {
	err := w.rollback(ctx)
	switch {
	case err == nil:
		err := w.record(ctx, func(tx *history.Tx) error { return tx.SetState(history.Failed) })
		if err == nil {
			w.meter.Count(metricFailed, 1)
		}
		return err
	case errors.Is(err, ErrStorage):
		return w.broken(err)
	case err == ErrCancelled:
		return nil
	case err == ErrEvicted:
		return evicted(ctx)
	}
	return err
}

// renew begins the workflow anew.
func (w *Workflow) renew(ctx context.Context, input []byte) error {
	err := w.end(context.WithoutCancel(ctx), func(tx *history.Tx) error {
		err := tx.Reset(false)
		if err == nil {
			err = tx.SetInput(input)
		}
		if err == nil {
			err = tx.SetState(history.Running)
		}
		return err
	}, nil)
	if large := tooLarge(err); large != nil {
		return misused(".", large.Error())
	}
	if err != nil {
		return w.broken(err)
	}
	return errAgain
}
