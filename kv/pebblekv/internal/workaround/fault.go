package workaround

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// A Fault is the first failure that a store can't survive, once it happened. It
// is shared by everything that can notice one (the disk, Pebble's logger, a
// recovered panic) and everything that must stop then.
type Fault struct {
	once sync.Once
	// done is closed when err is set.
	done chan struct{}
	// cause is the failure, err what callers get.
	cause, err error
}

// A diskFull is what callers get if the disk is full: an error of that kind, too.
type diskFull struct{ error }

func (d *diskFull) Unwrap() error { return d.error }

// Is reports whether target is errkind.ErrNoSpace.
func (d *diskFull) Is(target error) bool { return target == errkind.ErrNoSpace }

// Full gives err the kind of a full disk if it is of one.
func Full(err error) error {
	if vfs.IsNoSpaceError(err) {
		return &diskFull{err}
	}
	return err
}

// NewFault returns the Fault of a store that nothing has happened to.
func NewFault() *Fault { return &Fault{done: make(chan struct{})} }

// Set records the first cause; later ones are consequences and are dropped.
func (f *Fault) Set(cause error) {
	f.once.Do(func() {
		f.cause = cause
		f.err = Full(fmt.Errorf("pebblekv: %w: %w", kv.ErrPoisoned, cause))
		close(f.done)
	})
}

// Get returns the error that every call fails with once the store is poisoned,
// wrapping kv.ErrPoisoned and the cause, and nil while it is healthy.
func (f *Fault) Get() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// Done is closed when the store is poisoned.
func (f *Fault) Done() <-chan struct{} { return f.done }

// Cause returns the failure itself, when Get returns an error.
func (f *Fault) Cause() error { return f.cause }

// Guard runs a call into Pebble that writes, and turns a panic into the fault: Pebble panics where its own state is in
// doubt.
func (f *Fault) Guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f.Set(fmt.Errorf("panic: %v", r))
			err = f.Get()
		}
	}()
	return fn()
}

// closeTimeout is how long closing a poisoned store may take; it takes
// milliseconds unless Pebble is stuck.
const closeTimeout = 10 * time.Second

// errStuck is what Close returns if it gave up.
var errStuck = errors.New("the poisoned store could not be closed, and stays locked until the process ends")

// Close runs fn, which closes Pebble. On a poisoned store it gives up after a while: after a panic mutexes of Pebble may stay
// locked for good.
func (f *Fault) Close(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-f.done:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(closeTimeout):
		return errStuck
	}
}
