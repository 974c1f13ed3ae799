package history

import (
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/drain"
)

// A committer is what transactions need to land: the memory that they are planned with and that follows them, the gate of
// commits under way, and used memory. closed of contents is set before the gate is closed.
type committer struct {
	view
	gate  drain.Gate
	begun uint64    // how many commits have entered the gate  +checklocks:mu
	works sync.Pool // of *batch.Batch
	txs   sync.Pool // of *Tx, empty
}

// enter counts a commit of b, which e is told the end of.
//
// +checklocks:c.mu
func (c *committer) enter(b *batch.Batch, e *batch.Entry) error {
	if _, open := e.Enter(b, &c.gate); !open {
		return ErrClosed
	}
	c.begun++
	return nil
}

// idle waits until every commit that has begun is over, and returns how many have.
func (c *committer) idle(ctx context.Context) (begun uint64, err error) {
	c.mu.RLock()
	begun = c.begun
	c.mu.RUnlock()
	if err := c.gate.Idle(ctx); err != nil {
		return 0, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return begun, c.usable()
}

// replace makes m the memory, and forgets what was deferred, unless a commit began since so many had.
func (c *committer) replace(m memory, begun uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun != begun {
		return false
	}
	// An index of a name that was given out stays good.
	for _, name := range c.m.names[min(len(m.names), len(c.m.names)):] {
		m.register(name)
	}
	c.m = m
	c.dirty.Clear(c.dirty.Capture())
	return true
}
