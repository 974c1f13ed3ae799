package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/workflow"
)

// A Workflow is the durable workflow of a type of actors. NewWorkflow makes one.
type Workflow struct {
	open func(l *life) (*flow, error)
	code string // what is known of it, for a fingerprint
}

// NewWorkflow returns the workflow that fn is the code of; nil opts are the zero
// WorkflowOptions.
//
// It runs while its actor is awake, beside the turns, and wakes the actor when it has
// something to do. A step that changes the actor is a StepTurn, with which its result lands: exactly
// once. A greenroom.StepTx is one, too, whose function gets the transaction alone. Any other step reaches the actor by Turn and the context that it gets. Without
// Tracing, runs and steps are spans in the actor's own traces, if the host records any.
func NewWorkflow[In, Out any](fn workflow.Func[In, Out], opts *greenroom.WorkflowOptions) *Workflow {
	if fn == nil {
		return &Workflow{} // Open refuses it
	}
	var said greenroom.WorkflowOptions
	if opts != nil {
		said = *opts
	}
	code := fmt.Sprint(runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name(), said.MaxEntries, said.MaxBytes, said.Strict)
	return &Workflow{code: code, open: func(l *life) (*flow, error) {
		f := &flow{life: l, poke: make(chan struct{}, 1)}
		o := said
		o.OnDue = func() {
			f.due()
			if said.OnDue != nil {
				said.OnDue()
			}
		}
		if len(l.kind.flowLimits) > 0 {
			o.Observe = func(c workflow.Change) {
				if finished(c.State) {
					f.due() // it has permits to give back, or a place in a line
				}
				if said.Observe != nil {
					said.Observe(c)
				}
			}
		}
		if o.Tracing == nil && l.traces != nil {
			o.Tracing = flowTracer{life: l}
		}
		r, err := greenroom.OpenWorkflow(l.ctx, l.door, fn, &o)
		if err != nil {
			return nil, err
		}
		f.Workflow, f.run = r.Workflow, r.Run
		f.start = func(ctx context.Context, input Raw) error {
			var in In
			if err := input.Decode(&in); err != nil {
				return fmt.Errorf("%w: %w", ErrArgs, err)
			}
			return r.Start(ctx, in)
		}
		f.again = func(b *batch.Batch, input Raw) error {
			var in In
			if err := input.Decode(&in); err != nil {
				return fmt.Errorf("%w: %w", ErrArgs, err)
			}
			return r.StageAgain(b, in)
		}
		f.check = func(input Raw) error {
			var in In
			return input.Decode(&in)
		}
		return f, nil
	}}
}

// startWorkflow is the event by which a turn starts the workflow.
const startWorkflow = ownPrefix + "workflow.start"

// A flow is the workflow of an actor that is awake.
type flow struct {
	*workflow.Workflow
	life  *life
	run   func(ctx context.Context) (workflow.Status, error)
	start func(ctx context.Context, input Raw) error
	again func(b *batch.Batch, input Raw) error // start, of one that is over too
	check func(input Raw) error
	held  *permitSet    // while it runs, or waits, and its type has limits; drive's until that has ended, and then the course's
	poke  chan struct{} // of one: there may be something to do
	asked atomic.Bool   // and no run has begun since: the alarm, which has rung, doesn't say so any more
	stuck atomic.Bool   // the last run came to where only other code may go on
}

// due is told that there is something to do.
func (f *flow) due() {
	f.asked.Store(true)
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

func (f *flow) close() error { return f.Workflow.Close() }

// finished says that nothing more is to be run.
func finished(s workflow.State) bool {
	return s == workflow.Completed || s == workflow.Failed || s == workflow.Cancelled
}

// owed says that the workflow has been told that there is something to do, and the actor has
// gone to sleep before it could run.
func (f *flow) owed() bool { return f.asked.Load() && !finished(f.Status().State) }

// drive is the goroutine that runs the workflow whenever it has something to do. The
// actor stays awake while it runs, and not while it waits.
func (f *flow) drive() {
	l := f.life
	failures := 0
	for {
		status, err := f.once()
		if l.ctx.Err() != nil {
			return
		}
		again := time.Duration(-1)
		switch {
		case err == nil:
			failures = 0
			f.stuck.Store(false)
		case errors.Is(err, workflow.ErrNotStarted), errors.Is(err, workflow.ErrRunning):
		case errors.Is(err, ErrNotAwake): // it is about to be closed
		case errors.Is(err, context.Canceled): // while it waited for a permit
		default:
			// Nothing is wrong with what is stored: it goes on there, with other code perhaps.
			failures++
			f.stuck.Store(!errors.Is(err, workflow.ErrStorage))
			again = backoff(failures)
			l.log.Error("host: workflow", slog.Any("error", err))
		}
		if !f.wait(status, again) {
			return
		}
	}
}

// admit claims the permits that the workflow needs to run, and gives them back when it is over. Without an error held is nil if there was nothing to run.
func (f *flow) admit() error {
	l := f.life
	all := l.kind.flowLimits
	if len(all) == 0 {
		return nil
	}
	s := f.Status()
	switch {
	case finished(s.State):
		f.held.release(false)
		f.held = nil
		return nil
	case f.held != nil || len(s.Waits) == 0: // without waits it wasn't started
		return nil
	}
	ctx, cancel := context.WithCancel(l.ctx)
	over := make(chan struct{})
	defer func() { cancel(); <-over }() // from then on it takes no poke
	go func() {                         // until it is cancelled
		defer close(over)
		for !finished(f.Status().State) {
			select {
			case <-f.poke:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	p, err := claimer{l}.admit(ctx, all, partWorkflow, 0)
	switch {
	case err == nil:
		f.held = p
	case l.ctx.Err() == nil:
		claimer{l}.leave()
	}
	return err
}

// once runs the workflow as far as it comes. Its actor has a user meanwhile.
func (f *flow) once() (workflow.Status, error) {
	l := f.life
	if err := f.admit(); err != nil || f.held == nil && len(l.kind.flowLimits) > 0 {
		return f.Status(), err // one that is started just now says so
	}
	if !l.enterAwake() {
		return workflow.Status{}, ErrNotAwake
	}
	defer l.leave()
	f.asked.Store(false) // what is due from now on asks again
	if s := f.Status(); finished(s.State) {
		return s, nil
	}
	l.running.Store(true)
	defer l.running.Store(false)
	inTurn := func(ctx context.Context, fn func(tx *greenroom.Tx) error) error {
		return Turn(ctx, func(c *Context) error { return fn(c.Tx) })
	}
	return f.run(transactions.WithUpdater(withLife(l.ctx, l), l.door, inTurn))
}

// wait returns when the workflow may have something to do, false when the actor is to
// sleep.
func (f *flow) wait(s workflow.Status, again time.Duration) bool {
	l := f.life
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	message := make(chan struct{})
	if !finished(s.State) && (s.AnyName || len(s.Names) > 0) {
		names := s.Names
		if s.AnyName {
			names = nil
		}
		done := make(chan struct{})
		defer func() { cancel(); <-done }()
		go func() {
			defer close(done)
			if l.queue.WaitFor(ctx, names...) == nil {
				close(message)
			}
		}()
	}
	var retry <-chan time.Time
	if again >= 0 {
		retry = time.After(again)
	}
	select {
	case <-f.poke:
	case <-message:
	case <-retry:
	case <-l.ctx.Done():
		return false
	}
	return true
}

// startEvent starts the workflow, for a turn that has asked for it: when the event is
// being run that turn has landed. The workflow starts once, so that nothing is lost, or
// done twice, if the event comes again.
//
// A start of one that is over lands with the end of the event.
func (f *flow) startEvent(c *Context, e *persist.Firing) error {
	var input Raw
	var again bool
	if err := errors.Join(e.Arg(0, &input), e.Arg(1, &again)); err != nil {
		return err
	}
	if again {
		return f.again(c.Batch(), input)
	}
	if err := f.start(f.life.ctx, input); err != nil && !errors.Is(err, workflow.ErrOver) {
		return err
	}
	f.due()
	return nil
}

// StartWorkflow starts the actor's workflow when the turn lands. One that was started and isn't over
// keeps the input that it has, and nothing is done. One that is over, whether it returned or was cancelled, is
// workflow.ErrOver: StartWorkflowAgain starts it anew. An input that isn't what the workflow takes is
// ErrArgs.
func (c *Context) StartWorkflow(input any) error {
	_, err := c.life.workflow.ask(c, input, false)
	return err
}

// StartWorkflowAgain is StartWorkflow that also starts a workflow that is over, anew, exactly once when the turn lands: its
// history is removed, its steps are done again, with new IDs, and what is in the actor's queue is for the new run. See
// workflow.Runner.StartAgain.
func (c *Context) StartWorkflowAgain(input any) error {
	_, err := c.life.workflow.ask(c, input, true)
	return err
}

// ask plans the event that starts f, which may be nil, in the turn of c. It says whether there was none planned, and f wasn't started.
func (f *flow) ask(c *Context, input any, again bool) (fresh bool, err error) {
	if f == nil {
		return false, ErrNoWorkflow
	}
	in, err := Encode(input)
	if err != nil {
		return false, err
	}
	if err := c.check(); err != nil {
		return false, err
	}
	if err := f.check(in); err != nil {
		return false, fmt.Errorf("%w: %w", ErrArgs, err)
	}
	record := c.life.record.In(c.Batch())
	events, err := record.List()
	if err != nil {
		return false, err
	}
	s := f.Status()
	if !again {
		// The event of a start may be there still when the workflow that it started is over.
		planned := slices.IndexFunc(events, func(e persist.Event) bool { return e.ID == startWorkflow })
		var anew bool
		if planned >= 0 {
			if err := events[planned].Arg(1, &anew); err != nil {
				return false, err
			}
		}
		over := workflow.Over(s.State)
		switch {
		case over != nil && !anew:
			return false, over
		case planned >= 0, len(s.Waits) > 0:
			return false, nil
		}
	}
	if l := c.life; len(l.kind.flowLimits) > 0 {
		joined, err := claimer{l}.join(c)
		if joined { // one that has had its place keeps it
			c.undo = append(c.undo, claimer{l}.leave)
		}
		if err != nil {
			return false, fmt.Errorf("host: stand in the line of a limit: %w", err)
		}
	}
	args := []any{in}
	if again {
		args = append(args, true)
	}
	_, err = record.Add(persist.Job{ID: startWorkflow, Action: startWorkflow, Args: args, At: c.now})
	return err == nil, err
}

// Workflow returns the actor's workflow, to look at it and to control it. What is done to
// it is done at once, and isn't part of the turn. Errors: ErrNoWorkflow, greenroom.ErrClosed, and
// those of the store.
func (c *Context) Workflow() (*workflow.Workflow, error) {
	if c.life.workflow == nil {
		return nil, ErrNoWorkflow
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.life.workflow.Workflow, nil
}
