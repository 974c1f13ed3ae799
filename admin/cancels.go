package admin

import (
	"context"
	"sync"
)

// Cancels are what ends what is being done.
type cancels struct {
	mu  sync.Mutex
	now context.CancelFunc // nil while nothing is  +checklocks:mu
}

// add has all call cancel, until the function that it returns is called.
func (c *cancels) add(cancel context.CancelFunc) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = cancel
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now = nil
	}
}

// all ends what is being done.
func (c *cancels) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now()
	}
}
