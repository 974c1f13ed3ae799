// Package lease is how several hosts share one store of actors: each host has a lease, one row
// that it renews, and each handle to an actor stands on the lease of its host. The package reads
// and writes the rows of hosts and of the owners of actors in an engine, and finds out when an
// actor of another host may be claimed. It knows neither actors nor stores: a handle is what
// implements Handle. Package actorstore is what programs use, and docs/hosts.md says why an
// answer may be given when.
package lease

// Files, from the top down:
//
//	hosts.go opening.go seat.go lease.go claims.go others.go sightings.go rows.go config.go clock.go
//	process_linux.go process_other.go

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Where the owners of actors may be in other processes, each store that owns actors
// is a host with a lease: one row, which it rewrites three times in a TTL. As long as
// the lease holds, no other host claims an actor of this one, and so its handles
// answer without asking the engine whose the actor is. What they write is fenced by
// the head as ever: no clock has a say in what is stored.
//
// A claim, and what is rewritten of a host, is durable at once: an owner that keeps
// answering from memory would never learn that its claim was lost in a crash of the
// engine's machine.

// Hosts is a store's place among the hosts of its engine. A store that has lost its lease gets
// another one with the next actor. The methods are safe for concurrent use.
type Hosts struct {
	base
	others      others
	saying      sync.Mutex            // held to change base.said
	registering chan struct{}         // a lock: holds one token
	now         atomic.Pointer[lease] // nil before the first
}

// Announce changes what the rows of the store's hosts say of them: change makes it what layout takes. If the store is a host by now its row is rewritten at
// once; if that fails, the next renewal does it. The error is that of ctx.
func (g *Hosts) Announce(ctx context.Context, change func(a *layout.Announcement)) error {
	g.saying.Lock()
	next := *g.said.Load()
	change(&next.Announcement)
	if old := g.said.Load(); !old.Equal(&next.Announcement) {
		next.n++
		g.said.Store(&next)
	}
	g.saying.Unlock()
	if l := g.now.Load(); l != nil {
		return l.tell(ctx, next.n)
	}
	return nil
}

// New returns the place of a store that isn't a host yet. It neither reads nor writes.
func New(c Config) *Hosts {
	g := &Hosts{registering: make(chan struct{}, 1)}
	g.Config = c
	g.clock.start(c.Now)
	g.said.Store(new(said))
	g.others = others{base: &g.base, seen: sightings{of: map[[16]byte]sighting{}}}
	return g
}

// Own returns the id of the store's host, zero before there is one. It reads nothing.
func (g *Hosts) Own() (id [16]byte) {
	if l := g.now.Load(); l != nil {
		id = l.id
	}
	return id
}

// Alive reports whether another host may answer something about its actors. It reads one row, unless
// the host is known to be gone.
func (g *Hosts) Alive(ctx context.Context, host [16]byte) (bool, error) {
	v, err := g.others.look(ctx, host)
	return err == nil && !v.gone && !v.dead, err
}

// Join gives a handle that is being opened a seat on a lease of the store, which Seat.Leave ends. For the first
// handle, and after the lease was lost, it makes the store a host, by one commit. Errors are those of the engine, Config.Check
// and those of ctx.
func (g *Hosts) Join(ctx context.Context, id layout.ID, h Handle) (*Seat, error) {
	for {
		if l := g.now.Load(); l != nil {
			l.settle(ctx)
			s := &Seat{lease: l, held: held{id: id, handle: h}}
			if l.claims.enter(&s.held) {
				return s, nil
			}
		}
		if err := g.Register(ctx); err != nil {
			return nil, err
		}
	}
}

// Register makes the store a host, by one commit, unless it is one. Errors are those of the engine, Config.Check
// and those of ctx.
func (g *Hosts) Register(ctx context.Context) error {
	if err := g.register(ctx); err != nil {
		return fmt.Errorf("actorstore: register as a host: %w", err)
	}
	return nil
}

// register is Register.
func (g *Hosts) register(ctx context.Context) error {
	select {
	case g.registering <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.registering }()
	if err := g.Check(); err != nil {
		return err
	}
	if l := g.now.Load(); l != nil && !l.claims.isLost() {
		return nil
	}
	l := newLease(&g.others)
	// One that takes longer would begin with a lease that is over.
	ctx, cancel := context.WithTimeout(ctx, g.TTL)
	defer cancel()
	if err := l.rewrite(ctx); err != nil {
		// If it landed all the same the row is of a host that owns nothing.
		return err
	}
	renewing, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.run(renewing)
	g.now.Store(l)
	return nil
}

// Close gives the lease up, when no handle of the store is open any more. It waits for an engine
// that doesn't answer for as long as the lease lasts.
func (g *Hosts) Close() error {
	g.registering <- struct{}{}
	defer func() { <-g.registering }()
	l := g.now.Swap(nil)
	if l == nil {
		return nil
	}
	l.stop()
	<-l.done
	l.term.Store(nil)
	// After a TTL it is over by itself. A short one isn't a reason to leave it behind on a
	// server that is slow.
	ctx, cancel := context.WithTimeout(context.Background(), max(g.TTL, time.Second))
	defer cancel()
	for !l.claims.isLost() {
		err := swap(ctx, g.Engine, l.id, l.stored, nil)
		if errors.Is(err, kv.ErrConflict) {
			err = l.reread(ctx)
		} else if err == nil {
			return nil
		}
		if err != nil && !l.claims.isLost() {
			return fmt.Errorf("actorstore: end the lease of host %x: %w", l.id, err)
		}
	}
	return nil
}
