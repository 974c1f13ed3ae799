package workaround

import (
	"context"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/internal/drain"
	"github.com/greenroomdb/greenroom/kv"
)

// A Life keeps a store from being closed under its users. Pebble panics, or
// reads freed memory, when it is used during or after its Close.
//
// Calls are short and Close waits for them. Pins are what lasts as long as the
// caller likes, open scans and snapshots: Close doesn't wait for those (the
// caller of Close may be the one that holds them), but the store is only torn
// down when the last of them is gone.
type Life struct {
	calls drain.Gate
	// pins counts open scans and snapshots, and one for the store itself.
	pins atomic.Int64
	// closing is closed when Close begins.
	closing chan struct{}
}

// NewLife returns the Life of an open store.
func NewLife() *Life {
	l := &Life{closing: make(chan struct{})}
	l.pins.Store(1)
	return l
}

// Enter begins a call; Leave must follow when it returned nil.
func (l *Life) Enter() error {
	if !l.calls.Enter() {
		return kv.ErrClosed
	}
	return nil
}

// Leave ends a call.
func (l *Life) Leave() { l.calls.Leave() }

// Closed reports whether Close has begun.
func (l *Life) Closed() bool { return l.calls.Closed() }

// Close lets no call start any more and waits for those that run. It reports
// false when the store is closed already.
func (l *Life) Close() bool {
	if !l.calls.Shut() {
		return false
	}
	close(l.closing)
	_ = l.calls.Close(context.Background()) // which doesn't give up
	return true
}

// Pin keeps the store from being torn down until Unpin. It may only be called
// between Enter and Leave.
func (l *Life) Pin() { l.pins.Add(1) }

// Unpin reports whether this was the last pin of a closed store, so that the
// caller must tear it down.
func (l *Life) Unpin() bool { return l.pins.Add(-1) == 0 }

// Pins returns how many pins there are, besides that of the store itself until Close has let go of it.
func (l *Life) Pins() int64 { return l.pins.Load() }

// Closing is closed when Close begins.
func (l *Life) Closing() <-chan struct{} { return l.closing }
