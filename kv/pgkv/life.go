package pgkv

import (
	"context"

	"github.com/greenroomdb/greenroom/internal/drain"
	"github.com/greenroomdb/greenroom/kv"
)

// A life lets Close wait for the calls that run. They end soon: each request has a
// time limit, and a call that waits for a connection or a retry stops waiting.
type life struct {
	calls   drain.Gate
	closing chan struct{} // closed when Close begins
}

func (l *life) init() { l.closing = make(chan struct{}) }

// enter begins a call; leave must follow when it returned nil.
func (l *life) enter() error {
	if !l.calls.Enter() {
		return kv.ErrClosed
	}
	return nil
}

func (l *life) leave() { l.calls.Leave() }

// close lets no call start any more and waits for those that run. It reports false
// when that was done already.
func (l *life) close() bool {
	if !l.calls.Shut() {
		return false
	}
	close(l.closing)
	_ = l.calls.Close(context.Background()) // which doesn't give up
	return true
}
