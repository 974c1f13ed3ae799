package batch

import (
	"context"
	"sync"
)

// A Gate counts the commits that are under way with changes of one owner of participants,
// such as a record, so that closing the owner waits for them, without asking the store.
// Whoever opens the record next then reads what became of them. A participant enters when
// its Late is called for a commit, and leaves when that commit is over for it: at the end of
// Landed, Failed or Refused.
//
// The zero Gate is open. It is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	inside int           // +checklocks:mu
	closed bool          // +checklocks:mu
	empty  chan struct{} // closed when nothing is inside; nil while no Close waits  +checklocks:mu
}

// Enter counts a commit, and reports false, counting nothing, if the gate is closed.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside++
	}
	return !g.closed
}

// Leave undoes one Enter.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Closed reports whether the gate is closed, or being closed.
func (g *Gate) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Close lets nothing enter any more, and waits until nothing is inside. If the context ends
// first, Close opens the gate again and returns the context's error. It must not be called
// from inside.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		g.closed = true // also if another Close has given up
		if g.inside == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			g.closed = false
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
}
