// Package workflowtest is a kit to test the code of workflows: on an actor in memory, with
// a clock that skips idle time, with steps that fail and are slow where the test says so,
// with restarts, and with histories that were saved and are held against new code.
//
//	func TestOrder(t *testing.T) {
//		workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
//			e.Step("order/charge").Fail(errDown, 2)
//			w := workflowtest.Open(e, order)
//			…
//			got, err := w.Live(t.Context()) // a week in a moment
//		})
//	}
//
// It is for tests alone, and has no assertions.
package workflowtest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// An Env is the world in which workflows are tested: one actor, with a queue. Its methods
// end the test when what they need fails. It is not safe for concurrent use, but for what
// its steps do.
type Env struct {
	// Options are those with which Open opens workflows. Queue, Clock and Around are the
	// Env's; an Around of the test's is called inside of it.
	Options workflow.Options
	// Actor, Queue and Clock are new after Restart and Crash.
	Actor *actorstore.Actor
	Queue *queue.Queue
	Clock *alarm.Clock

	// Steps are those of the Env's workflows.
	Steps

	t      testing.TB
	engine *faultkv.Engine
	store  *actorstore.Store
	close  []func() error // of workflows
}

// Run calls fn in a bubble of testing/synctest: time passes when all goroutines wait, and
// then at once. So the real time.Sleep and the timeouts of steps take no time; what waits
// for something outside of the bubble, a network or a file, doesn't work there.
func Run(t *testing.T, fn func(t *testing.T, e *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &Env{t: t, engine: faultkv.New(memkv.New())}
		e.open()
		defer e.shut()
		fn(t, e)
	})
}

func (e *Env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *Env) open() {
	e.t.Helper()
	ctx := context.Background()
	var err error
	e.store, err = actorstore.Open(ctx, e.engine, nil)
	e.must(err)
	e.Actor, err = e.store.Named(ctx, "test", nil)
	e.must(err)
	e.Clock = alarm.New(nil)
	e.Queue, err = queue.Open(ctx, e.Actor, &queue.Options{Env: part.Env{Clock: e.Clock}, MaxMessages: -1})
	e.must(err)
}

// shut closes everything. What a broken engine says to that doesn't matter.
func (e *Env) shut() {
	for _, c := range e.close {
		_ = c()
	}
	e.close = nil
	_ = e.Queue.Close()
	e.Clock.Close()
	_ = e.Actor.Close()
	_ = e.store.Close()
}

// Open opens the workflow of the Env's actor, to be closed with the Env. After a Restart or
// a Crash it must be opened again.
func Open[In, Out any](e *Env, fn workflow.Func[In, Out]) *workflow.Runner[In, Out] {
	e.t.Helper()
	o := e.Options
	o.Queue, o.Clock = e.Queue, e.Clock
	o.Around = e.Around
	if inner := e.Options.Around; inner != nil {
		o.Around = func(ctx context.Context, info workflow.StepInfo, do func(context.Context) error) error {
			return e.Around(ctx, info, func(ctx context.Context) error { return inner(ctx, info, do) })
		}
	}
	w, err := workflow.Open(context.Background(), e.Actor, fn, &o)
	e.must(err)
	e.close = append(e.close, w.Close)
	return w
}

// Start is Open, and gives the workflow its input.
func Start[In, Out any](e *Env, fn workflow.Func[In, Out], in In) *workflow.Runner[In, Out] {
	e.t.Helper()
	w := Open(e, fn)
	e.must(w.Start(context.Background(), in))
	return w
}

// Restart ends everything in good order, as a host does that moves an actor, and opens the
// actor again: what runs is evicted.
func (e *Env) Restart() {
	e.t.Helper()
	e.shut()
	e.open()
}

// Crash ends everything as the end of the process does: nothing lands any more from this
// moment on, and the actor is opened again as it is stored.
func (e *Env) Crash() {
	e.t.Helper()
	e.engine.Tear(0)
	e.shut()
	e.engine.Heal()
	e.open()
}

// CrashAfter has a Crash begin after n more commits: everything that the store is asked
// then fails, and runs end with workflow.ErrStorage. The test goes on with Crash. It
// is how every moment is tried:
//
//	for n := 0; !done; n++ {
//		… e.CrashAfter(n) … run; on an error e.Crash() and run again …
//	}
func (e *Env) CrashAfter(n int) { e.engine.Tear(n) }

// Send puts a message into the actor's queue.
func (e *Env) Send(name string, body any) queue.ID {
	e.t.Helper()
	id, err := e.Queue.Enqueue(context.Background(), queue.Send{Name: name, Body: body})
	e.must(err)
	return id
}

// Sleep lets time pass: for all that goes on in the bubble.
func (e *Env) Sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Rest runs w as workflow.Runner.Run does, again and again, and lets the time pass for
// which it sleeps, until it is over or waits for something else than time. The code runs
// from its beginning each time, as after as many restarts.
func Rest[In, Out any](e *Env, w *workflow.Runner[In, Out]) workflow.Status {
	e.t.Helper()
	for {
		s, err := w.Run(context.Background())
		e.must(err)
		if s.State != workflow.Sleeping || s.Until.IsZero() || len(s.Names) > 0 || s.AnyName {
			return s
		}
		e.Sleep(max(0, time.Until(s.Until)))
	}
}

// Save returns the history of a workflow in a form to be kept in a file, for Replay.
func Save(w *workflow.Workflow) ([]byte, error) { return w.Snapshot().MarshalJSON() }

// Replay returns what differs between code and the history of a workflow that was saved:
// see workflow.Workflow.Verify. Nil opts are the zero Options; Codec and Errors must be
// those of the workflow.
func Replay[In, Out any](fn workflow.Func[In, Out], saved []byte, opts *workflow.Options) error {
	ctx := context.Background()
	engine := memkv.New()
	defer engine.Close()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		return fmt.Errorf("workflowtest: replay: %w", err)
	}
	defer store.Close()
	actor, err := store.Actor(ctx, actorstore.NewID(), nil)
	if err != nil {
		return fmt.Errorf("workflowtest: replay: %w", err)
	}
	defer actor.Close()
	if err := restore(ctx, actor, saved); err != nil {
		return fmt.Errorf("workflowtest: replay: %w", err)
	}
	return verify(ctx, actor, fn, opts)
}

func verify[In, Out any](ctx context.Context, a *actorstore.Actor, fn workflow.Func[In, Out], opts *workflow.Options) error {
	o := workflow.Options{}
	if opts != nil {
		o = *opts
	}
	o.OnDue, o.Observe = nil, nil
	clock := alarm.New(nil)
	defer clock.Close()
	q, err := queue.Open(ctx, a, &queue.Options{Env: part.Env{Clock: clock}})
	if err != nil {
		return fmt.Errorf("workflowtest: replay: %w", err)
	}
	defer q.Close()
	o.Queue, o.Clock = q, clock
	w, err := workflow.Open(ctx, a, fn, &o)
	if err != nil {
		return fmt.Errorf("workflowtest: replay: %w", err)
	}
	defer w.Close()
	return w.Verify(ctx)
}
