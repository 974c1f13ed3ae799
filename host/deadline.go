package host

import (
	"context"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/opentx"
)

// A turnContext is the context of one turn: it ends with its parent, at its deadline, or
// when the turn is over. Most turns only ask whether it has ended, which needs neither a
// timer nor a place among the parent's children: those are made when a caller wants to
// wait for it.
type turnContext struct {
	parent   context.Context
	deadline time.Time    // zero for none
	life     *life        // whose turn it is
	caller   *turnContext // of the turn that waits for it, nil for none
	beside   []string     // the names of all actors whose turn it is, if it is of several
	remote   []string     // the names of actors of other hosts that wait for it

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

// transactions are begun by a turn, and ended when its function has returned.
var transactions = opentx.Get[*greenroom.Actor, *greenroom.Tx]()

// turnKey is the key under which the context of a turn that runs has itself.
type turnKey struct{}

// turnOf returns the context of the turn to which ctx belongs, nil if it belongs to none or
// the turn is over.
func turnOf(ctx context.Context) *turnContext {
	c, _ := ctx.Value(turnKey{}).(*turnContext)
	return c
}

// runs says that the turn isn't over.
func (c *turnContext) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over
}

// Value implements context.Context. Once a caller waits, the values are those of the
// context below, by which package context finds it, and makes children without a goroutine.
func (c *turnContext) Value(key any) any {
	c.mu.Lock()
	inner, over := c.inner, c.over
	c.mu.Unlock()
	if key == (turnKey{}) && !over {
		return c
	}
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
