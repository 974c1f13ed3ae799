package faultkv

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrInjected is what a rule without an error of its own makes operations return.
var ErrInjected = errors.New("faultkv: injected fault")

// Forever as the Times of a Rule means every matching operation from the first on.
const Forever = -1

// A Rule selects operations: those at a point that match, without the first Skip
// of them, and Times of the rest. The zero Rule selects the next Get.
type Rule struct {
	// Point is where the operations are met.
	Point Point
	// Match selects some of the operations at Point; nil selects all. It is called
	// by any number of goroutines at once.
	Match Match
	// Skip is the number of matching operations that pass first: the nth one is
	// met with Skip n-1.
	Skip int
	// Times is how many operations are met after that: 0 means one, Forever, like
	// everything below 0, all.
	Times int
	// Err is what the operations return; nil stands for ErrInjected in Fail, and
	// for none in Pause.
	Err error
}

// A Fault is a Rule in force. Its methods are safe for concurrent use.
type Fault struct {
	e          *Engine
	rule       Rule
	pause      *Pause // nil: nothing is paused
	gone       atomic.Bool
	seen, hits atomic.Int64
}

// Fail makes the operations that r selects fail with r.Err. Rules are asked in the
// order in which they were set; the first that yields an error ends it, so that
// those after it don't see the operation.
func (e *Engine) Fail(r Rule) *Fault {
	if r.Err == nil {
		r.Err = ErrInjected
	}
	f := &Fault{e: e, rule: r}
	f.arm()
	return f
}

// Hits is how many operations were met so far.
func (f *Fault) Hits() int { return int(f.hits.Load()) }

// Seen is how many operations matched so far, those that passed included.
func (f *Fault) Seen() int { return int(f.seen.Load()) }

// Remove takes the fault away. An operation that meets it just then may still fail.
func (f *Fault) Remove() {
	f.e.change(func(p *plan) {
		if i := slices.Index(p.faults, f); i >= 0 {
			p.faults = slices.Delete(slices.Clone(p.faults), i, i+1)
		}
	})
	f.disarm()
}

func (f *Fault) arm() {
	f.e.change(func(p *plan) { p.faults = append(slices.Clip(p.faults), f) })
}

// disarm ends what an operation that has the plan of before may still meet.
func (f *Fault) disarm() {
	f.gone.Store(true)
	if f.pause != nil {
		f.pause.open()
	}
}

// meet returns what f makes of op, nil if nothing.
func (f *Fault) meet(ctx context.Context, op Op) error {
	r := &f.rule
	if op.Point != r.Point || f.gone.Load() || r.Match != nil && !r.Match(op) {
		return nil
	}
	n := f.seen.Add(1) - 1 - int64(max(r.Skip, 0))
	if n < 0 || r.Times >= 0 && n >= int64(max(r.Times, 1)) {
		return nil
	}
	f.hits.Add(1)
	if f.pause != nil {
		if err := f.pause.wait(ctx, op.Point); err != nil {
			return err
		}
	}
	return r.Err
}

// A Pause holds the operations that a Rule selects until it is released. Its
// methods are safe for concurrent use.
type Pause struct {
	fault             Fault
	arrive, release   sync.Once
	arrived, released chan struct{}
}

// Pause holds the operations that r selects, and then lets them go on, or fail with
// r.Err if there is one. Where nothing has been done yet the operation's context can
// end the wait, as with an engine that waits for its turn: nothing is done then, and
// the context's error is returned. An applied commit waits whatever happens to its
// context.
func (e *Engine) Pause(r Rule) *Pause {
	p := &Pause{arrived: make(chan struct{}), released: make(chan struct{})}
	p.fault.e, p.fault.rule, p.fault.pause = e, r, p
	p.fault.arm()
	return p
}

// Reached returns a channel that is closed as soon as an operation is held.
func (p *Pause) Reached() <-chan struct{} { return p.arrived }

// Release lets go of what is held, and takes the pause away: nothing is held any
// more. A second Release does nothing.
func (p *Pause) Release() { p.fault.Remove() }

// Hits is how many operations were held so far, Seen how many matched.
func (p *Pause) Hits() int { return p.fault.Hits() }

// Seen is how many operations matched so far, those that passed included.
func (p *Pause) Seen() int { return p.fault.Seen() }

func (p *Pause) open() { p.release.Do(func() { close(p.released) }) }

func (p *Pause) wait(ctx context.Context, at Point) error {
	p.arrive.Do(func() { close(p.arrived) })
	var ended <-chan struct{}
	if at.before() {
		ended = ctx.Done()
	}
	select {
	case <-p.released:
		return nil
	case <-ended:
		return ctx.Err()
	}
}
