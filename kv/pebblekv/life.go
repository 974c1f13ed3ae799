package pebblekv

import (
	"sync/atomic"

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
	// calls counts running calls, plus lifeClosed once no more may start.
	calls atomic.Int64
	// idle is sent to when the last call of a closed store ends.
	idle chan struct{}
	// pins counts open scans and snapshots, and one for the store itself.
	pins atomic.Int64
	// closing is closed when Close begins.
	closing chan struct{}
}

// lifeClosed is larger than any number of running calls.
const lifeClosed = 1 << 40

func newLife() *life {
	l := &life{idle: make(chan struct{}, 1), closing: make(chan struct{})}
	l.pins.Store(1)
	return l
}

// enter begins a call; leave must follow when it returned nil.
func (l *life) enter() error {
	if l.calls.Add(1) > lifeClosed {
		l.leave()
		return kv.ErrClosed
	}
	return nil
}

func (l *life) leave() {
	if l.calls.Add(-1) == lifeClosed {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// closed reports whether Close has begun.
func (l *life) closed() bool { return l.calls.Load() >= lifeClosed }

// close lets no call start any more and waits for those that run. It reports
// false when the store is closed already.
func (l *life) close() bool {
	for {
		n := l.calls.Load()
		if n >= lifeClosed {
			return false
		}
		if l.calls.CompareAndSwap(n, n+lifeClosed) {
			break
		}
	}
	close(l.closing)
	for l.calls.Load() != lifeClosed {
		<-l.idle
	}
	return true
}

// pin keeps the store from being torn down until unpin. It may only be called
// between enter and leave.
func (l *life) pin() { l.pins.Add(1) }

// unpin reports whether this was the last pin of a closed store, so that the
// caller must tear it down.
func (l *life) unpin() bool { return l.pins.Add(-1) == 0 }
