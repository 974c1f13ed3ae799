// Package drain lets the Close of something wait for the work that is under way in it.
package drain

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Gate counts what is under way inside: calls of a store, or commits with changes of one part of an
// actor. Close lets nothing more in and waits until all of it is over.
//
// The zero Gate is open. It is safe for concurrent use.
type Gate struct {
	inside  atomic.Int64 // how many, and shut while nothing may enter
	mu      sync.Mutex
	empty   chan struct{} // closed when nothing is inside; nil while no Close waits  +checklocks:mu
	closing int           // how many calls of Close are under way  +checklocks:mu
	over    bool          // one of them has returned, and the gate stays closed  +checklocks:mu
}

// shut is larger than any number of entries.
const shut = 1 << 40

// Enter counts an entry, and reports false, counting nothing, if the gate is closed or being closed.
func (g *Gate) Enter() bool {
	if g.inside.Add(1) < shut {
		return true
	}
	g.Leave()
	return false
}

// Leave undoes one Enter.
func (g *Gate) Leave() {
	if g.inside.Add(-1) != shut {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Closed reports whether the gate is closed, or being closed.
func (g *Gate) Closed() bool { return g.inside.Load() >= shut }

// Shut lets nothing enter any more, and doesn't wait. It reports false if the gate was shut already.
func (g *Gate) Shut() bool {
	for {
		n := g.inside.Load()
		if n >= shut {
			return false
		}
		if g.inside.CompareAndSwap(n, n+shut) {
			return true
		}
	}
}

// Close is Shut, and waits until nothing is inside. If the context ends first, Close returns the
// context's error, and opens the gate again unless another Close waits. It must not be called from inside.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Shut()
	g.closing++
	defer func() { g.closing-- }()
	for !g.over && g.inside.Load() != shut {
		if err := ctx.Err(); err != nil {
			if g.closing == 1 {
				g.inside.Add(-shut)
			}
			return err
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
	g.over = true
	return nil
}
