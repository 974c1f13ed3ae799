package host

import (
	"context"
	"sync"
	"time"
)

// A turnContext is the context of one turn: it ends with its parent, at its deadline, or
// when the turn is over. Most turns only ask whether it has ended, which needs neither a
// timer nor a place among the parent's children: those are made when a caller wants to
// wait for it.
type turnContext struct {
	parent   context.Context
	deadline time.Time // zero for none

	mu     sync.Mutex
	inner  context.Context // of context.WithDeadline; nil until a caller waits  +checklocks:mu
	cancel context.CancelFunc
	over   bool // +checklocks:mu
}

func newTurnContext(parent context.Context, timeout time.Duration) *turnContext {
	c := &turnContext{parent: parent}
	if timeout > 0 {
		c.deadline = time.Now().Add(timeout)
	}
	return c
}

// Deadline implements context.Context.
func (c *turnContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return c.parent.Deadline()
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *turnContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		if c.deadline.IsZero() {
			c.inner, c.cancel = context.WithCancel(c.parent)
		} else {
			c.inner, c.cancel = context.WithDeadline(c.parent, c.deadline)
		}
		if c.over {
			c.cancel()
		}
	}
	return c.inner.Done()
}

// Err implements context.Context.
func (c *turnContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.inner != nil:
		return c.inner.Err()
	case c.over:
		return context.Canceled
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		// From now on it has ended, whatever becomes of the parent.
		c.inner, c.cancel = context.WithDeadline(c.parent, c.deadline)
		return c.inner.Err()
	}
	return c.parent.Err()
}

// Value implements context.Context. Once a caller waits, the values are those of the
// context below, by which package context finds it, and makes children without a goroutine.
func (c *turnContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

// end ends it, with the turn.
func (c *turnContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}
