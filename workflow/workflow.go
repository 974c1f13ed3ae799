package workflow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A Func is the code of a workflow. It is run from its beginning every time that the
// workflow goes on, and finds in the history what it did before. So it must do the same
// every time, as far as it came: everything that isn't so belongs in a Step or a
// SideEffect, and it waits and branches by means of its Context alone. Between two calls
// it must neither block nor start goroutines that use the Context.
//
// A panic of it is an error.
type Func[In, Out any] func(c *Context, in In) (Out, error)

// A Workflow is the workflow of an actor, for the actor's owner: its stored history, and the
// control of its runs. It is safe for concurrent use.
type Workflow struct {
	actor    *actorstore.Actor
	opts     Options
	h        *history.History
	failures failures
	clock    *alarm.Clock
	ownClock bool
	source   *alarm.Source
	tracer   trace.Tracer // nil for none
	meter    metrics.Meter
	batches  sync.Pool // of *batch.Batch, empty
	small    bool      // a commit has to be a single batch
	ages     ages
	// fn is the code, nil for a workflow that is only looked at and controlled; takes says
	// whether a value is an input of it.
	fn    func(c *Context, input []byte) ([]byte, error)
	takes func(in any) bool

	// arming orders the settings of the alarm. It is taken before mu.
	arming sync.Mutex

	mu     sync.Mutex
	busy   bool      // a run, or something that excludes runs  +checklocks:mu
	run    *run      // nil for none  +checklocks:mu
	rested time.Time // when what the last run waits for is due; zero for never  +checklocks:mu
	stale  bool      // memory may be ahead of the store  +checklocks:mu
	missed bool      // the alarm has rung while the workflow was busy without a run  +checklocks:mu
	closed bool      // +checklocks:mu
	idle   *sync.Cond
}

// A Runner is a Workflow with its code.
type Runner[In, Out any] struct{ *Workflow }

// Open reads the workflow of an actor, to be run by fn. It writes nothing. There can be one
// Workflow of an actor at a time: another is actorstore.ErrKept. It must be closed before
// the actor, the queue and the clock are, and whatever else its steps use: they would take
// its end for a failure. nil opts are the zero Options.
//
// A history that is damaged is an error that wraps actorstore.ErrCorrupt.
func Open[In, Out any](ctx context.Context, a *actorstore.Actor, fn Func[In, Out], opts *Options) (*Runner[In, Out], error) {
	w, err := open(ctx, a, opts)
	if err != nil {
		return nil, err
	}
	w.takes = func(in any) bool { _, ok := in.(In); return ok }
	codec := w.opts.Codec
	w.fn = func(c *Context, input []byte) ([]byte, error) {
		var in In
		if err := codec.Decode(input, &in); err != nil {
			w.unreadable(c, fmt.Sprintf("the input is no %T: %v", in, err))
		}
		out, err := fn(c, in)
		if err != nil {
			return nil, err
		}
		data, err := codec.Encode(cbor.Typed(out))
		if err != nil {
			c.leaveIfOver()
			c.misuse("output", "it can't be encoded: "+err.Error())
		}
		return data, nil
	}
	w.begin()
	return &Runner[In, Out]{w}, nil
}

func (w *Workflow) unreadable(c *Context, why string) {
	c.r.halt(diverged(".", why))
	leave()
}

// Attach is Open for a program without the code, to look at a workflow and to control it.
// It can't be run.
func Attach(ctx context.Context, a *actorstore.Actor, opts *Options) (*Workflow, error) {
	w, err := open(ctx, a, opts)
	if err != nil {
		return nil, err
	}
	w.begin()
	return w, nil
}

func open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Workflow, error) {
	w := &Workflow{actor: a, tracer: opts.tracer(), small: a.Limits().AtomicBatches > 0}
	w.idle = sync.NewCond(&w.mu)
	w.batches.New = func() any { return new(batch.Batch) }
	var err error
	if w.opts, err = opts.check(); err != nil {
		return nil, err
	}
	w.meter.To = w.opts.Metrics
	if w.failures, err = newFailures(w.opts.Errors); err != nil {
		return nil, err
	}
	w.h, err = history.Open(ctx, a, &history.Options{NewID: w.opts.NewID, Changed: observer(w.opts.Observe)})
	if err != nil {
		return nil, fmt.Errorf("workflow: open: %w", err)
	}
	if w.clock = w.opts.Clock; w.clock == nil {
		w.clock, w.ownClock = alarm.New(nil), true
	}
	return w, nil
}

// begin has the alarm say that there is something to do.
func (w *Workflow) begin() {
	w.source = w.clock.Lasting("workflow", w.ring)
	w.arming.Lock()
	defer w.arming.Unlock()
	if w.unfinished() {
		w.due(w.clock.Now())
	} else {
		w.due(time.Time{})
	}
}

// unfinished says whether a run would do something.
func (w *Workflow) unfinished() bool {
	return !over(State(w.h.State())) && w.h.Input() != nil
}

// due sets the time at which the workflow should be run; zero for none.
//
// +checklocks:w.arming
func (w *Workflow) due(at time.Time) {
	if at.IsZero() || w.opts.OnDue != nil && w.fn != nil {
		w.source.Set(at)
	} else {
		w.source.Hold(at)
	}
}

// ring is called when what is waited for may be due.
func (w *Workflow) ring() {
	w.mu.Lock()
	r, busy := w.run, w.busy
	w.missed = w.missed || busy && r == nil
	w.mu.Unlock()
	switch {
	case r != nil:
		r.wakeDue()
	case !busy && w.opts.OnDue != nil:
		w.opts.OnDue()
	}
}

// now is the time of day.
func (w *Workflow) now() history.Millis {
	return history.MillisOf(w.clock.Now().Truncate(time.Millisecond))
}

// until is how long it is until a time of day.
func (w *Workflow) until(at history.Millis) time.Duration { return at.Time().Sub(w.clock.Now()) }

// Close ends the run, if there is one, and then the Workflow, not the actor; it waits for commits of the history that are
// under way. The history stays. A second Close returns when the first is over. Participants of a batch must not call it.
func (w *Workflow) Close() error {
	w.mu.Lock()
	w.closed = true
	for w.busy {
		if w.run != nil {
			w.run.halt(ErrEvicted)
		}
		w.idle.Wait()
	}
	w.mu.Unlock()
	w.h.Close() // waits for a commit of StageAgain, which sets the source
	w.source.Close()
	if w.ownClock {
		w.clock.Close()
	}
	return nil
}

// claim makes the caller the only one that runs or changes the workflow.
func (w *Workflow) claim() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrClosed
	case w.busy:
		return ErrRunning
	}
	w.busy = true
	return nil
}

// release ends a claim. What the alarm has said meanwhile it says again.
func (w *Workflow) release() {
	w.mu.Lock()
	missed := w.missed
	w.busy, w.run, w.missed = false, nil, false
	w.idle.Broadcast()
	w.mu.Unlock()
	if missed && w.unfinished() {
		w.arming.Lock()
		defer w.arming.Unlock()
		w.due(w.clock.Now())
	}
}

func (w *Workflow) setRun(r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = r
	if r != nil && w.closed {
		r.halt(ErrEvicted)
	}
}

// Start gives the workflow its input, durably. One that was started and isn't over keeps the input
// that it has, and nothing is done. Errors: ErrOver for one that is over (see StartAgain), with ErrCancelled if it was cancelled;
// ErrTooLarge, ErrClosed, ErrStorage, and those of the codec.
func (r *Runner[In, Out]) Start(ctx context.Context, in In) error {
	data, err := r.opts.Codec.Encode(cbor.Typed(in))
	if err != nil {
		return fmt.Errorf("workflow: input: %w", err)
	}
	return r.start(ctx, data, (*history.Tx).Commit)
}

// Call is Start and Live with one commit less: the input lands with the first thing that the workflow stores, an attempt at a step for one, so after a crash
// before that the workflow isn't started. Errors are those of both.
func (r *Runner[In, Out]) Call(ctx context.Context, in In) (out Out, err error) {
	data, err := r.opts.Codec.Encode(cbor.Typed(in))
	if err != nil {
		return out, fmt.Errorf("workflow: input: %w", err)
	}
	if err := r.start(ctx, data, func(tx *history.Tx, _ context.Context) error { return tx.Defer() }); err != nil {
		return out, err
	}
	return r.Live(ctx)
}

// Run runs the workflow as far as it comes without waiting, and returns how far that is:
// it is over, or sleeps, or waits for messages or Resume. Short sleeps are waited for
// (Options.ShortWait).
//
// When ctx is over, or Evict is called, the code is stopped at its next call and the error
// is ErrEvicted, which wraps the context's. Other errors: ErrNotStarted, ErrRunning,
// ErrClosed, ErrStorage, ErrDiverged, ErrMisuse, ErrHistoryFull; and the Failure of an Undo,
// if the rollback of the workflow can't go on. After each of them the workflow goes on with
// the next run where its history ends.
func (r *Runner[In, Out]) Run(ctx context.Context) (Status, error) { return r.execute(ctx, false) }

// Live runs the workflow until it is over, and returns its output: it stays in memory when
// it waits. Errors are those of Run, ErrFailed and ErrCancelled.
func (r *Runner[In, Out]) Live(ctx context.Context) (out Out, err error) {
	if _, err := r.execute(ctx, true); err != nil {
		return out, err
	}
	return r.Output()
}

// Output returns what the workflow has returned. Errors: ErrFailed with the Failure, ErrCancelled,
// ErrNotStarted, ErrUnfinished, and those of the codec.
func (r *Runner[In, Out]) Output() (out Out, err error) {
	s := r.Status()
	switch s.State {
	case Completed:
		if err := r.opts.Codec.Decode(r.h.Output(), &out); err != nil {
			return out, fmt.Errorf("workflow: output: %w", err)
		}
		return out, nil
	case Failed:
		return out, fmt.Errorf("%w: %w", ErrFailed, s.Failure)
	case Cancelled:
		return out, ErrCancelled
	}
	if r.h.Input() == nil {
		return out, ErrNotStarted
	}
	return out, ErrUnfinished
}
