package actorstore

import (
	"context"
	"fmt"
	"sync"
)

// places are where the handles to the actors of a Store stand: each actor has one at a time.
type places struct {
	mu     sync.Mutex
	closed bool          // +checklocks:mu
	taken  map[ID]*place // +checklocks:mu
}

// A place is where the one handle to an actor stands in its Store.
type place struct {
	released chan struct{} // closed when the place is free again
	actor    *Actor        // nil while it is being opened; guarded by places.mu
}

// reserve takes the place of an actor, and waits for it if it may.
func (p *places) reserve(ctx context.Context, id ID, wait bool, closing <-chan struct{}) (*place, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, ErrClosed
		}
		held := p.taken[id]
		if held == nil {
			l := &place{released: make(chan struct{})}
			if p.taken == nil {
				p.taken = map[ID]*place{}
			}
			p.taken[id] = l
			p.mu.Unlock()
			return l, nil
		}
		p.mu.Unlock()
		if !wait {
			return nil, ErrInUse
		}
		select {
		case <-held.released:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrInUse, ctx.Err())
		case <-closing:
			return nil, ErrClosed
		}
	}
}

// occupy puts the open handle into its place, unless the Store was closed meanwhile.
func (p *places) occupy(l *place, a *Actor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	l.actor = a
	return nil
}

// release gives a place back.
func (p *places) release(id ID, l *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[id] == l {
		delete(p.taken, id)
		close(l.released)
	}
}

// close refuses new handles, and returns those that are open; false if it was called before.
func (p *places) close() (open []*Actor, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.closed = true
	for _, l := range p.taken {
		if l.actor != nil {
			open = append(open, l.actor)
		}
	}
	return open, true
}
