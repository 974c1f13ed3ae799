package actorstore

import (
	"sync"
	"sync/atomic"
)

// A lifecycle is how the handle to an actor ends.
type lifecycle struct {
	closed atomic.Bool
	failed atomic.Pointer[error] // why the handle is fenced or poisoned, set once
	over   chan struct{}         // closed when the handle is closed or fails
	end    sync.Once             // closes over
}

// Err returns why the handle refuses everything, an error that wraps ErrFenced or
// ErrPoisoned; nil when it is healthy, closed or not.
func (e *lifecycle) Err() error {
	if err := e.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Done is closed when the handle is: by Close or Drop, or because it is fenced or
// poisoned, which Err says. Where the actor's owner is one with a lease (Leased),
// it isn't told when another host takes the actor over; a call that asks finds it,
// Owned for one.
func (e *lifecycle) Done() <-chan struct{} { return e.over }

// check says why no call may go on.
func (e *lifecycle) check() error {
	if e.closed.Load() {
		return ErrClosed
	}
	return e.Err()
}

// finish tells those that wait that the handle is of no more use.
func (e *lifecycle) finish() { e.end.Do(func() { close(e.over) }) }

// shut marks the handle as closed, and says whether it wasn't yet.
func (e *lifecycle) shut() bool {
	first := !e.closed.Swap(true)
	e.finish()
	return first
}
