package pebblekv

import (
	"context"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/internal/drain"
	"github.com/greenroomdb/greenroom/kv"
)

// A life keeps a store from being closed under its users. Pebble panics, or
// reads freed memory, when it is used during or after its Close.
//
// Calls are short and Close waits for them. Pins are what lasts as long as the
// caller likes, open scans and snapshots: Close doesn't wait for those (the
// caller of Close may be the one that holds them), but the store is only torn
// down when the last of them is gone.
type life struct {
	calls drain.Gate
	// pins counts open scans and snapshots, and one for the store itself.
	pins atomic.Int64
	// closing is closed when Close begins.
	closing chan struct{}
}

func newLife() *life {
	l := &life{closing: make(chan struct{})}
	l.pins.Store(1)
	return l
}

// enter begins a call; leave must follow when it returned nil.
func (l *life) enter() error {
	if !l.calls.Enter() {
		return kv.ErrClosed
	}
	return nil
}

func (l *life) leave() { l.calls.Leave() }

// closed reports whether Close has begun.
func (l *life) closed() bool { return l.calls.Closed() }

// close lets no call start any more and waits for those that run. It reports
// false when the store is closed already.
func (l *life) close() bool {
	if !l.calls.Shut() {
		return false
	}
	close(l.closing)
	_ = l.calls.Close(context.Background()) // which doesn't give up
	return true
}

// pin keeps the store from being torn down until unpin. It may only be called
// between enter and leave.
func (l *life) pin() { l.pins.Add(1) }

// unpin reports whether this was the last pin of a closed store, so that the
// caller must tear it down.
func (l *life) unpin() bool { return l.pins.Add(-1) == 0 }
