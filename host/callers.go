package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom"
)

// errAgain says that a turn didn't run, because the actor left memory before its
// turn came: the caller wakes the actor again.
var errAgain = errors.New("host: actor has left memory")

// A caller is a kind of callers that want an actor awake.
type caller uint8

const (
	byUser caller = iota
	byCourier
	byAlarm       // for what is due, unless the actor is restored meanwhile, and is to sleep on
	byCoordinator // for a turn of several, some of which are awake for it: doesn't wait for room: errNoRoom
)

// errNoRoom says that as many actors are awake as may be.
var errNoRoom = errors.New("host: no room for one more actor")

// errRestored says that an actor was restored, and isn't woken for what was due before.
var errRestored = errors.New("host: actor was restored")

// nested returns ErrNested if ctx, or the calling goroutine, belongs to a turn of l that
// runs, or to one for which such a turn waits: what waited there for a turn of l would wait
// for itself.
//
// +checklocks:l.host.mu
func nested(ctx context.Context, l *life) error {
	for c := waiter(ctx); c != nil; c = c.caller {
		if c.runs() && (c.life == l || slices.Contains(c.beside, l.name)) || slices.Contains(c.remote, l.name) {
			return fmt.Errorf("host: call of %s, which waits for the caller: %w", l.name, greenroom.ErrNested)
		}
	}
	return nil
}

// waiter returns the context of the turn that waits for what the calling goroutine does with ctx: the one that runs on it, else the
// one to which ctx belongs; nil for none.
func waiter(ctx context.Context) *turnContext {
	if l := runners.current(); l != nil && l.turn != nil {
		return turnOf(l.turn)
	}
	return turnOf(ctx)
}

// runners are the goroutines of actors, of all hosts of the process.
var runners = goroutines{lives: map[int64]*life{}}

// goroutines are known by their numbers.
type goroutines struct {
	mu    sync.RWMutex
	lives map[int64]*life // +checklocks:mu
}

// enter makes the calling goroutine that of l, until it calls leave.
func (g *goroutines) enter(l *life) (leave func()) {
	number := transactions.Goroutine()
	if number == 0 {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lives[number] = l
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.lives, number)
	}
}

// current returns the life whose goroutine calls it, nil if none's does.
func (g *goroutines) current() *life {
	number := transactions.Goroutine()
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.lives[number]
}
