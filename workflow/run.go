package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A run is one execution of a workflow's code, from its beginning.
//
// The code has a goroutine of its own, and so has each branch; they leave by themselves
// when the run is over. A goroutine is active unless it waits (park) or has branches that
// work for it. When none is active the run is idle: in Run that is its end.
type run struct {
	wf   *Workflow
	live bool
	// undoing, unless it is nil, collects what is to be undone: the code is replayed, and
	// does nothing that isn't recorded.
	undoing *[]undoing
	// verifying says that this is all that is wanted, and that the code must pass what is
	// recorded before it comes to something new.
	verifying bool

	life context.Context // over when the run is; the contexts of branches and steps are its children
	kill context.CancelCauseFunc
	// steady is for commits, which are not cut off.
	steady context.Context
	idle   chan struct{} // holds a token when a live run has become idle
	done   chan struct{} // closed when the code has returned, or left
	shut   atomic.Bool   // the run no longer waits for what is left of it

	// writing is held for reading while a context defers a change, and for writing while a
	// branch is given up: nothing of it is deferred later.
	writing sync.RWMutex
	// deferring is held while a context defers a change and commits are small. It is taken before writing.
	deferring sync.Mutex
	owing     owing

	mu      sync.Mutex
	reason  error // why all leave  +checklocks:mu
	active  int   // +checklocks:mu
	waits   map[*parked]struct{}
	workers sync.WaitGroup // goroutines of the code
	drawn   int            // values that were deferred and are not reproducible  +checklocks:mu
	behind  backlog        // of what was deferred, all in all  +checklocks:mu
	open    []*delivery    // messages that wait to be completed  +checklocks:mu
	guarded bool           // a checkpoint was passed  +checklocks:mu
	warned  bool           // about the size of the history  +checklocks:mu
	rested  []history.Wait // what is waited for at the end  +checklocks:mu
	due     time.Time      // when the first of that is due  +checklocks:mu
	out     []byte
	err     error
	ended   bool // the code has returned out and err
}

// Reasons for which a run ends that the caller doesn't see.
var (
	errIdle      = errors.New("workflow: idle")
	errCollected = errors.New("workflow: collected") // what is to be undone
)

// A renewal is the reason for which a run ends that continues as new.
type renewal struct{ input []byte }

func (renewal) Error() string { return "workflow: continues as new" }

func (w *Workflow) newRun(ctx context.Context, live bool) *run {
	r := &run{wf: w, live: live, idle: make(chan struct{}, 1), done: make(chan struct{}), waits: map[*parked]struct{}{}, active: 1}
	r.steady = context.WithoutCancel(ctx)
	if values := w.opts.RunContext; values != nil {
		r.steady = values(r.steady)
	}
	r.life, r.kill = context.WithCancelCause(r.steady)
	r.owing.begin(func() { // the code doesn't hear of it: the run ends if it fails
		c := &Context{r: r, life: r.life}
		(&place{c: c}).must(c.flush())
	})
	return r
}

// halt makes all leave, for the first reason that is given.
func (r *run) halt(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.haltLocked(reason)
}

// +checklocks:r.mu
func (r *run) haltLocked(reason error) {
	if r.reason != nil {
		return
	}
	r.rested = r.waiting()
	if first := firstDue(r.rested); r.active > 0 {
		r.due = r.wf.clock.Now() // there is something to do at once
	} else if first != 0 {
		r.due = first.Time()
	}
	r.reason = reason
	r.kill(reason)
}

// stopped returns why the run is over, nil while it isn't.
func (r *run) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

// start runs the code.
func (r *run) start(input []byte) {
	c := &Context{r: r, life: r.life}
	r.spawn(func() ([]byte, error) { return r.wf.fn(c, input) }, func(out []byte, err error, returned bool) {
		switch {
		case returned:
			r.finished(c, out, err)
		case r.stopped() == nil && r.undoing == nil:
			r.halt(errGoexit)
		}
		close(r.done)
	})
}

var errGoexit = misused(".", "the code has ended its goroutine (runtime.Goexit)")

// spawn runs fn, a part of the code, on a goroutine of its own, and then end, on the
// same one: with what fn returned, or with an error in the place of its panic. fn may
// also leave, and has returned nothing then.
func (r *run) spawn(fn func() ([]byte, error), end func(out []byte, err error, returned bool)) {
	r.workers.Add(1)
	go func() {
		defer r.workers.Done()
		var out []byte
		var err error
		returned := false
		defer func() {
			if v := recover(); v != nil {
				out, err, returned = nil, &panicError{v, debug.Stack()}, true
			}
			end(out, err, returned)
		}()
		out, err = fn()
		returned = true
	}()
}

// finished takes what the code has returned.
func (r *run) finished(c *Context, out []byte, err error) {
	if r.stopped() != nil && r.undoing == nil {
		switch r.stopped() {
		case errIdle, ErrEvicted: // it was done all the same
		default:
			return
		}
	}
	if err == nil && (r.wf.opts.Strict && r.undoing == nil || r.verifying) {
		if d := c.unvisited(); d != nil {
			r.halt(d)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out, r.err, r.ended = out, err, true
}

// A panicError is a panic of the workflow's code.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns ErrPanic, and the value if that is an error.
func (e *panicError) Unwrap() []error {
	if err, ok := e.value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// wait waits for the end of the run, and has it leave when ctx is over.
func (r *run) wait(ctx context.Context) {
	for {
		select {
		case <-r.done:
			r.join()
			return
		case <-r.life.Done():
			r.join()
			return
		case <-ctx.Done():
			r.halt(ErrEvicted)
		case <-r.idle:
			r.sleep()
		}
	}
}

// join waits until the goroutines of the code have left; steps get their Grace, and the
// code between them as much again.
func (r *run) join() {
	all := make(chan struct{})
	go func() {
		r.workers.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(2*r.wf.opts.Grace + time.Second):
		r.wf.opts.Logger.Warn("workflow: code doesn't return after its run has ended")
	}
}

// sleep records that a live run is idle, and what it waits for.
func (r *run) sleep() {
	r.mu.Lock()
	idle := r.active == 0 && r.reason == nil
	waits := r.waiting()
	r.mu.Unlock()
	if !idle {
		return
	}
	defer r.owing.lock()()
	r.owing.take() // no goroutine of the code adds one meanwhile
	if err := r.wf.record(r.life, sleeping(r.wf.h, waits)); err != nil {
		r.halt(err)
		return
	}
	r.owing.landed()
}

// commit lands tx, and what stage adds, durably. What is about the size of an entry is
// returned, as an ErrTooLarge, and an error of stage; after any other the code leaves.
func (c *Context) commit(tx *history.Tx, stage func(b *batch.Batch) error) error {
	b := c.r.wf.batches.Get().(*batch.Batch)
	known := true // stage may have kept b
	defer func() {
		if b.Abort(nil); !known {
			b.Reset()
			c.r.wf.batches.Put(b)
		}
	}()
	b.Enlist(c, (*writer)(c))
	if stage != nil {
		if err := stage(b); err != nil {
			return err
		}
	}
	if s := c.r.wf.h.State(); s == history.Pending || s == history.Sleeping {
		if err := tx.SetState(history.Running); err != nil {
			c.r.halt(storageError(err))
			leave()
		}
	}
	c.prune(tx)
	tx.Stage(b)
	err := c.land(b)
	known = stage != nil
	return err
}

// A writer is a Context that takes part in a commit of its own.
type writer Context

func (w *writer) Late(*batch.Batch) error {
	w.r.owing.take()
	return (*Context)(w).mayWrite()
}

func (w *writer) Landed() {
	w.r.owing.landed()
	(*Context)(w).pruned()
}

func (w *writer) Failed(error, bool) {}

// flush writes what was deferred.
func (c *Context) flush() error {
	tx := c.r.wf.h.Begin()
	err := c.commit(tx, nil)
	if err == nil {
		tx.Free()
	}
	return err
}

// land commits b for the code.
func (c *Context) land(b *batch.Batch) error {
	r := c.r
	r.mu.Lock()
	drawn := r.drawn
	r.behind = backlog{}
	r.mu.Unlock()
	err := r.wf.actor.Commit(r.steady, b)
	switch {
	case err == nil:
		r.mu.Lock()
		r.drawn -= min(drawn, r.drawn)
		r.mu.Unlock()
		return nil
	case errors.Is(err, errLeft):
		leave()
	}
	if large := tooLarge(err); large != nil {
		return large
	}
	r.halt(storageError(err))
	leave()
	return nil
}

// errLeft refuses what a context wants to write that is over.
var errLeft = errors.New("workflow: the run is over")

// mayWrite is called under the actor's commit lock, as is the code that gives a context up.
// What was done before a run is evicted is recorded.
func (c *Context) mayWrite() error {
	if c.r.cancelled() {
		return errLeft
	}
	switch cause := context.Cause(c.life); {
	case c.r.shut.Load():
		return errLeft
	case cause != nil && cause != errIdle && cause != ErrEvicted:
		return errLeft
	}
	for p := c; p != nil; p = p.parent {
		if p.lost.Load() {
			return errLeft
		}
	}
	return nil
}

// cancelled says whether a cancellation is stored, and halts the run then: Cancel may not
// have come to that yet.
func (r *run) cancelled() bool {
	if r.wf.h.State() != history.Cancelled {
		return false
	}
	r.halt(ErrCancelled)
	return true
}
