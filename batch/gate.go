package batch

import (
	"context"
	"sync"
)

// A Gate counts the commits that are under way with changes of one owner of participants,
// such as a record, so that closing the owner waits for them, without asking the store.
// The next opening of the record then reads what became of them. A participant enters by its
// Entry when its Late is called for a commit.
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

// An Entry is one participant's place inside a Gate, for as long as a commit of its batch is under
// way. The zero Entry is outside. It is the participant's, and is used under the store's commit lock alone.
type Entry struct {
	gate *Gate // nil outside
}

// Enter is called by Late of the participant that has e. It has the gate count the commit of b until
// that is over: after Landed of the participant, before its Failed, or when the batch is taken back to its
// mark. first says that it wasn't inside: Late begins anew, whatever an earlier commit of b has left.
// If the gate is closed it isn't entered, and open is false.
func (e *Entry) Enter(b *Batch, g *Gate) (first, open bool) {
	if e.gate != nil {
		return false, true
	}
	if !g.Enter() {
		return false, false
	}
	e.gate = g
	b.Enlist(e, (*leaver)(e))
	return true, true
}

// A leaver is the participant by which an Entry is told that the commit is over.
type leaver Entry

func (l *leaver) Late(*Batch) error { return nil }

func (l *leaver) Landed() {
	g := l.gate
	l.gate = nil
	g.Leave()
}

func (l *leaver) Failed(error, bool) { l.Landed() }
