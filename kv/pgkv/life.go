package pgkv

import (
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// A life lets Close wait for the calls that run. They end soon: each request has a
// time limit, and who waits for a connection or a retry stops waiting.
type life struct {
	mu      sync.Mutex
	calls   int  // +checklocks:mu
	closed  bool // +checklocks:mu
	idle    chan struct{}
	closing chan struct{} // closed when Close begins
}

func (l *life) init() {
	l.idle, l.closing = make(chan struct{}), make(chan struct{})
}

// enter begins a call; leave must follow when it returned nil.
func (l *life) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return kv.ErrClosed
	}
	l.calls++
	return nil
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.closed && l.calls == 0 {
		close(l.idle)
	}
}

// close lets no call start any more and waits for those that run. It reports false
// when that was done already.
func (l *life) close() bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.closed = true
	close(l.closing)
	wait := l.calls > 0
	l.mu.Unlock()
	if wait {
		<-l.idle
	}
	return true
}
