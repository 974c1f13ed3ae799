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
	inside  atomic.Int64 // how many, with the bits shut and watched
	mu      sync.Mutex
	empty   chan struct{} // closed when nothing is inside; nil while no call waits  +checklocks:mu
	closing int           // how many calls of Close are under way  +checklocks:mu
	idling  int           // how many calls of Idle are under way  +checklocks:mu
	over    bool          // one of them has returned, and the gate stays closed  +checklocks:mu
}

// The bits of Gate.inside above any number of entries: shut is set while nothing may enter, watched while Idle waits.
const (
	shut    = 1 << 40
	watched = 1 << 41
)

// Enter counts an entry, and reports false, counting nothing, if the gate is closed or being closed.
func (g *Gate) Enter() bool {
	if g.inside.Add(1)&shut == 0 {
		return true
	}
	g.Leave()
	return false
}

// Leave undoes one Enter.
func (g *Gate) Leave() {
	if n := g.inside.Add(-1); n < shut || n%shut != 0 {
		return // no call waits, or something is inside
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Closed reports whether the gate is closed, or being closed.
func (g *Gate) Closed() bool { return g.inside.Load()&shut != 0 }

// Shut lets nothing enter any more, and doesn't wait. It reports false if the gate was shut already.
func (g *Gate) Shut() bool {
	for {
		n := g.inside.Load()
		if n&shut != 0 {
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
	if err := g.wait(ctx); err != nil && !g.over {
		if g.closing == 1 {
			g.inside.Add(-shut)
		}
		return err
	}
	g.over = true
	return nil
}

// Idle waits until nothing is inside, and lets more in meanwhile. So what was inside when Idle was called is over when it
// returns nil; if the context ends first, Idle returns the context's error. It must not be called from inside.
func (g *Gate) Idle(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idling++; g.idling == 1 {
		g.inside.Add(watched)
	}
	defer func() {
		if g.idling--; g.idling == 0 {
			g.inside.Add(-watched)
		}
	}()
	return g.wait(ctx)
}

// wait waits until nothing is inside. Leave must see shut or watched meanwhile.
//
// +checklocks:g.mu
func (g *Gate) wait(ctx context.Context) error {
	for !g.over && g.inside.Load()%shut != 0 {
		if err := ctx.Err(); err != nil {
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
	return nil
}
