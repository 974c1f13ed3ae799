package engine

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/routes"
)

// A fleet is the engines of a store, as one of them sees them. What is asked of an actor goes to the engine that has it, and else to one that has a runner
// for it: to the engine that is asked, if that has one, and else to the one that rendezvous hashing names. Each tells the others of which pools it has runners.
type fleet struct {
	e       *core
	peers   *peers.Peers
	routes  *routes.Table
	changed chan struct{} // of one: a pool has got its first runner, or has lost its last, or the engine leaves
}

// start tells the other engines of this one, which has no runner yet. f may be nil.
func (f *fleet) start(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if err := f.tell(ctx); err != nil {
		return err
	}
	f.e.work.Go(f.keepTold)
	return nil
}

// close ends the connections to other engines. f may be nil.
func (f *fleet) close() {
	if f != nil {
		f.peers.Close()
	}
}

// poke says that something has changed of which the other engines are told. f may be nil.
func (f *fleet) poke() {
	if f == nil {
		return
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// keepTold tells the other engines of each change.
func (f *fleet) keepTold() {
	for {
		select {
		case <-f.changed:
		case <-f.e.ctx.Done():
			return
		}
		if err := f.tell(f.e.ctx); err != nil && f.e.ctx.Err() == nil {
			f.e.log.Warn("engine: tell other engines of runners", slog.Any("error", err)) // the next renewal of the lease does it
		}
	}
}

// Bounds of an offer.
const maxOffered, maxOfferedName = 1024, 256

// tell tells the other engines of which pools this one has runners.
func (f *fleet) tell(ctx context.Context) error {
	o := &actorstore.Offer{Address: f.peers.Address()}
	f.e.mu.Lock()
	o.Leaving = f.e.draining
	for key, p := range f.e.pools {
		if name := key.offered(); len(p.runners) > 0 && len(name) <= maxOfferedName {
			o.Types = append(o.Types, actorstore.OfferedType{Name: name})
		}
	}
	f.e.mu.Unlock()
	slices.SortFunc(o.Types, func(a, b actorstore.OfferedType) int { return strings.Compare(a.Name, b.Name) })
	o.Types = o.Types[:min(len(o.Types), maxOffered)]
	return f.routes.Offer(ctx, o)
}

// offered is the name by which engines tell each other of a pool. No host has a type of such a name.
func (k poolKey) offered() string {
	return "rivetkit/" + url.PathEscape(k.namespace) + "/" + url.PathEscape(k.name)
}

// wanted returns the engine at which an actor is wanted that isn't open here, as far as that is known; nil for this one.
func (f *fleet) wanted(ctx context.Context, a *actorInfo) *actorstore.HostInfo {
	return f.routes.Where(ctx, poolKey{a.Namespace, a.Runner}.offered(), a.ID.String())
}

// forwardedKey is the key of a context of what another engine has passed on.
type forwardedKey struct{}

func isForwarded(ctx context.Context) bool { return ctx.Value(forwardedKey{}) != nil }

// withForwarded returns ctx, as that of what another engine has passed on if from is.
func withForwarded(ctx, from context.Context) context.Context {
	if isForwarded(from) {
		return context.WithValue(ctx, forwardedKey{}, true)
	}
	return ctx
}

// gives reports whether an actor that is open here is wanted at another engine, since it sleeps, and that has a runner for it. Then this one keeps no
// sockets of its. f may be nil.
func (f *fleet) gives(ctx context.Context, a *actor) bool {
	if f == nil || f.wanted(ctx, &a.public) == nil {
		return false
	}
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if a.phase != asleep || f.e.pools.has(a) {
		return false
	}
	a.mail.yield()
	return true
}

// lost returns why an actor that was open here isn't any more. f may be nil.
//
// +checklocks:a.e.mu
func (f *fleet) lost(a *actor) error {
	switch {
	case a.destroy:
		return errNotFound
	case f != nil:
		return errElsewhere // it is looked for
	}
	return errUnavailable
}

// far returns errFar with why.
func far(to *actorstore.HostInfo, err error) error {
	return fmt.Errorf("%w: host %q at %s: %w", errFar, to.Name, to.Offer.Address, err)
}
