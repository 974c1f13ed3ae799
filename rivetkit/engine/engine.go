// Package engine runs the actors of RivetKit programs. A program, the runner, connects to the engine over a WebSocket,
// and the engine tells it which actors to start and stop, keeps their keys, wakes them when their time has come, and
// passes the requests of clients on to them. For the program it is a Rivet engine, for which it needs
// nothing but RIVET_ENDPOINT; what its actors store are actors of a store, in actorstore.LayoutRivetKit, which everything else in
// Greenroom reads.
//
// An actor is asleep until something is wanted of it: a request, a message over a WebSocket that has outlived its
// sleep, or its alarm. Then the engine opens it, which keeps other processes away, and tells a runner of the actor's
// namespace and runner name to start it. From then on the actor's keys are the runner's to read and write, until it
// says that the actor stopped. A write is answered when it is durable.
//
// Several engines may serve one store (Options.Peers): what is asked of an actor goes to the one that has it, and an actor that isn't open goes to one that has
// a runner for it.
package engine

// Files, from the top down:
//
//	forwarded.go relay.go arrival.go runner.go address.go socket.go actors.go engine.go takeover.go gateway.go namespaces.go
//	request.go forward.go alarms.go follow.go open.go tunnel.go database.go run.go mailbox.go kv.go usage.go jobs.go
//	exchange.go fleet.go state.go incoming.go runnerconn.go pages.go remotesql.go sequence.go tokens.go outbox.go account.go
//	budget.go pools.go errors.go options.go

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/routes"
	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/kv"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// An Engine is an http.Handler, which serves clients and runners. It is safe for concurrent use.
type Engine struct {
	core
	http *gateway
}

// Open returns an Engine whose actors are in the store of e, and begins to wake them. The caller closes the Engine before
// e.
func Open(ctx context.Context, e kv.Engine, opts *Options) (*Engine, error) {
	o := opts.withDefaults()
	var others *peers.Peers
	if o.Peers != nil && kv.Shared(e) == nil {
		var err error
		others, err = peers.Open(ctx, e, &peers.Options{Address: o.Peers.Address, Insecure: o.Peers.Insecure, TLS: o.Peers.TLS, Logger: o.Logger})
		if err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	store, err := actorstore.Open(ctx, e, o.Store)
	if err != nil {
		return nil, err
	}
	en := &Engine{core: core{
		opts: o, log: o.Logger, kv: e, store: store, budget: newBudget(&o), staged: room{most: max(o.Memory/4, maxStage)}, shared: kv.Shared(e) == nil,
		actors: map[actorstore.ID]*actor{}, runners: map[runnerKey]*runner{}, pools: pools{}, tunnels: map[rp.TunnelID]*tunnel{},
		namespaces: map[string]time.Time{}, creating: map[string]chan struct{}{}, doomed: map[actorstore.ID]bool{}, endings: map[actorstore.ID]ending{}, lost: map[runnerKey]time.Time{}, sockets: openSockets{most: o.MaxSockets, from: map[netip.Addr]int{}},
	}}
	_, _ = rand.Read(en.instance[:]) // it never fails
	en.ctx, en.stop = context.WithCancel(context.WithoutCancel(ctx))
	en.http = newGateway(&en.core)
	en.alarms = newAlarms(&en.core)
	if others != nil {
		en.fleet = &fleet{e: &en.core, peers: others, routes: routes.New(store, true, o.Clock), changed: make(chan struct{}, 1)}
	}
	if err = loadNamespaces(ctx, &en.core); err == nil {
		err = takeover{&en.core}.load(ctx)
	}
	if err == nil {
		err = en.fleet.start(ctx)
	}
	if err == nil {
		err = en.alarms.Start(ctx)
	}
	if err != nil {
		en.alarms.Close()
		en.stop()
		en.work.Wait()
		return nil, errors.Join(err, store.Close())
	}
	en.work.Go(en.alarms.adoptAll)
	return en, nil
}

// Advertise tells the other processes that use the store at which address they reach the API to look into it; see actorstore.Store.Advertise.
func (e *Engine) Advertise(ctx context.Context, address string) error {
	return e.store.Advertise(ctx, address)
}

// Apart runs fn, which may take over an actor that exists in another Store of this process, while the Engine doesn't have it: a program that wakes the actor
// meanwhile is told that it is unavailable. On an engine that several processes may use, leases keep Stores apart, and fn runs at once.
//
// Errors: fn's; actorstore.ErrInUse, if the Engine has the actor; those of actorstore.Store.Actor.
func (e *Engine) Apart(ctx context.Context, id actorstore.ID, fn func() error) error {
	if kv.Shared(e.kv) == nil {
		return fn()
	}
	h, err := e.store.Actor(ctx, id, &actorstore.ActorOptions{MustExist: true})
	if err != nil {
		return err
	}
	err = fn()
	if cerr := h.Close(); !errors.Is(cerr, actorstore.ErrFenced) { // by fn
		err = errors.Join(err, cerr)
	}
	return err
}

// ServeHTTP implements http.Handler.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of the request before
	if e.fleet != nil && len(r.Header[signed.Header]) > 0 {
		forwarded{e.fleet}.serve(w, r)
		return
	}
	if !e.opts.allowHost(r) {
		writeError(w, newError(http.StatusMisdirectedRequest, "guard", "wrong_host", "The engine isn't known by this name."))
		return
	}
	e.http.ServeHTTP(w, r)
}

// Shutdown stops all actors, which sleep then, and closes the Engine when they do or ctx ends. Nothing is started meanwhile. The actors that don't
// sleep in time are left as Close leaves them.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.fleet.poke()
	for _, a := range e.actors {
		if a.runner != nil && a.runner.conn != nil && (a.phase == starting || a.phase == running) {
			a.halt()
		}
		a.notify()
	}
	for {
		ends := e.ending()
		e.mu.Unlock()
		if ends == nil {
			break
		}
		select {
		case <-ends:
		case <-ctx.Done():
			return e.Close()
		}
		e.mu.Lock()
	}
	return e.Close()
}

// ending returns a channel that is closed when something happens to an actor that ends, nil if none does.
//
// +checklocks:e.mu
func (e *Engine) ending() <-chan struct{} {
	for _, a := range e.actors {
		if a.working || a.runner != nil && a.runner.conn != nil {
			return a.changed
		}
	}
	return nil
}

// Close ends all sockets, and closes the store. What was acknowledged is stored. The actors run on in their runners, and an engine that
// is opened within Options.LostThreshold takes them over.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, r := range e.runners {
		if r.conn != nil {
			r.conn.close(websocket.StatusNormalClosure, "ws.going_away")
		}
	}
	for _, t := range e.tunnels {
		t.fail(errUnavailable)
	}
	e.mu.Unlock()
	e.stop()
	e.alarms.Close()
	e.work.Wait()
	e.fleet.close()
	e.mu.Lock()
	var open []*actor
	for _, a := range e.actors {
		if a.handle != nil {
			open = append(open, a)
		}
	}
	e.mu.Unlock()
	var err error
	for _, a := range open {
		a.pages.end() // no job uses it any more
		err = errors.Join(err, a.handle.Close())
	}
	return errors.Join(err, e.store.Close())
}
