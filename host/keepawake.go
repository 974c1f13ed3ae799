package host

import (
	"context"
	"fmt"
	"sync"
)

// KeepAwake keeps the actor of ctx in memory until release is called, so that work that takes longer than Options.IdleTimeout isn't ended for want of calls: ctx is that of
// Type.Run, of a step of the workflow, or of a turn, for work that the turn begins on a goroutine of its own. release may be called more than once, from any goroutine.
//
// It holds in memory alone. Host.Close, the loss of the actor and a crash end its stay all the same, and with it the context of Run: what must happen is a message, an event of the
// schedule or a workflow, which wakes the actor again. An actor that is kept awake has one of the places of Options.MaxAwake.
//
// Errors: ErrNotAwake, if ctx belongs to no actor that is awake.
func KeepAwake(ctx context.Context) (release func(), err error) {
	l, ok := ctx.Value(lifeKey{}).(*life)
	if t := turnOf(ctx); t != nil {
		l, ok = t.life, true
	}
	if !ok {
		return nil, fmt.Errorf("%w: the context is of no actor", ErrNotAwake)
	}
	if !l.keep() {
		return nil, ErrNotAwake
	}
	return sync.OnceFunc(l.unkeep), nil
}

// keep counts one more reason to stay awake, and says whether the actor is.
func (l *stay) keep() bool {
	l.roster.mu.Lock()
	defer l.roster.mu.Unlock()
	if l.phase > awake || l.roster.closed {
		return false
	}
	l.kept++
	l.settle()
	return true
}

// unkeep takes one off.
func (l *stay) unkeep() {
	l.roster.mu.Lock()
	defer l.roster.mu.Unlock()
	l.kept--
	l.settle()
}
