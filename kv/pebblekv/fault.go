package pebblekv

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// A fault is the first failure that a store can't survive, once it happened. It
// is shared by everything that can notice one (the disk, Pebble's logger, a
// recovered panic) and everything that must stop then.
type fault struct {
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

// full gives err the kind of a full disk if it is of one.
func full(err error) error {
	if vfs.IsNoSpaceError(err) {
		return &diskFull{err}
	}
	return err
}

func newFault() *fault { return &fault{done: make(chan struct{})} }

// set records the first cause; later ones are consequences and are dropped.
func (f *fault) set(cause error) {
	f.once.Do(func() {
		f.cause = cause
		f.err = full(fmt.Errorf("pebblekv: %w: %w", kv.ErrPoisoned, cause))
		close(f.done)
	})
}

// get returns the error that every call fails with once the store is poisoned,
// wrapping kv.ErrPoisoned and the cause, and nil while it is healthy.
func (f *fault) get() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}
