package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/internal/routes"
	"github.com/greenroomdb/greenroom/kv"
)

// Peers make a Host one of several that share a store: what an actor of another host is asked for here, that host does.
type Peers struct {
	// Address is where this host takes requests of the others, as actorstore.CheckAddress says, and Carry takes those to them.
	Address string
	Carry   Carrier
	// Here places the actors that no host has at the host that is asked for them. Else rendezvous hashing names one among the living hosts.
	Here bool
}

// A Carrier takes requests to other hosts of the store, where Host.Answer answers them; package fleet has one. It is safe for concurrent use.
type Carrier interface {
	// Carry returns the answer of a host. The request takes with it the caller of the context (CallerOf) and its deadline. ErrUnreachable says that
	// nothing was done there, and ErrUnknownOutcome that something may have been. It must not keep or change the request.
	Carry(ctx context.Context, to *actorstore.HostInfo, request []byte) (answer []byte, err error)
}

// A forwarder asks other hosts, and answers them.
type forwarder struct {
	host   *Host
	routes *routes.Table // nil for a host that forwards nothing
}

// offer returns what the host tells the others.
func (f *forwarder) offer(leaving bool) *actorstore.Offer {
	h := f.host
	o := &actorstore.Offer{Address: h.opts.Peers.Address, Leaving: leaving}
	for _, name := range h.Types() {
		o.Types = append(o.Types, actorstore.OfferedType{Name: name, Schema: uint32(h.types[name].Migrations.Latest())})
	}
	return o
}

// meet makes the host one of several, if its options say so.
func (f *forwarder) meet(ctx context.Context, h *Host) error {
	f.host = h
	if h.opts.Peers == nil || kv.Shared(h.engine) != nil {
		return nil
	}
	f.routes = routes.New(h.store, h.opts.Peers.Here, h.clock)
	return f.routes.Offer(ctx, f.offer(false))
}

const (
	// moves bounds how often a request follows an actor that moves, and movePause, from the second time on, the pauses between, which double.
	moves, movePause, maxMovePause = 24, 5 * time.Millisecond, 200 * time.Millisecond
)

// ask asks something of an actor where it is: here does it at this host, and else say has the request for another one, whose answer is far. What was
// forwarded once isn't forwarded again.
func (f *forwarder) ask(ctx context.Context, a Address, say func() (*request, error), here func(ctx context.Context) error) (far *answer, err error) {
	if f.routes == nil || ctx.Value(forwardedKey{}) != nil {
		return nil, here(ctx)
	}
	on := &forwarding{forwarder: f, ctx: ctx, name: a.String(), say: say}
	for n := 0; ; n++ {
		on.to = nil
		if f.host.life(on.name) == nil {
			on.to = f.routes.Where(ctx, a.Type, on.name)
		}
		if on.to == nil {
			far, err = nil, here(ctx)
		} else if far, err = on.carry(); errors.Is(err, ErrUnreachable) {
			unreachable := err
			if far, err = nil, here(ctx); errors.Is(err, actorstore.ErrInUse) { // if it has died its actors are free
				if at := f.owner(err); at == nil || at.ID == on.to.ID {
					return nil, unreachable
				}
			}
		}
		if !moved(err) || !on.follow(err) || n == moves {
			return far, err
		}
		if n > 0 {
			select {
			case <-time.After(min(movePause<<min(n, 10), maxMovePause)):
			case <-ctx.Done():
				return nil, errors.Join(err, ctx.Err())
			}
		}
	}
}

// A forwarding is what is asked of an actor that may be at another host.
type forwarding struct {
	*forwarder
	ctx     context.Context
	name    string // of the actor
	say     func() (*request, error)
	request []byte               // nil before it is needed
	to      *actorstore.HostInfo // where it is asked for; nil for this host
}

// carry asks another host.
func (f *forwarding) carry() (*answer, error) {
	if f.request == nil {
		r, err := f.say()
		if err == nil {
			r.Waiting = waiting(f.ctx)
			f.request, err = encodeWire(r)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArgs, err)
		}
	}
	f.host.meter.Count(metricForwarded, 1)
	text, err := f.host.opts.Peers.Carry.Carry(f.ctx, f.to, f.request)
	if errors.Is(err, ErrUnreachable) {
		f.routes.Down(f.to.ID)
		f.routes.Forget(f.name)
	}
	if err != nil {
		return nil, err
	}
	a, err := readAnswer(f.to, text)
	if err == nil {
		f.routes.Learn(f.name, f.to)
	}
	return a, err
}

// follow notes where an actor has moved to, and says whether it can be asked there.
func (f *forwarding) follow(err error) bool {
	if at := f.owner(err); at != nil {
		f.routes.Learn(f.name, at)
		return true
	}
	f.routes.Forget(f.name)
	if f.to != nil && !errors.Is(err, actorstore.ErrInUse) {
		f.routes.Down(f.to.ID) // it is about to end
	}
	return !errors.Is(err, actorstore.ErrInUse) // whose host takes no requests
}

// waiting returns the names of the actors that wait, in turns, for what is done with a context.
func waiting(ctx context.Context) (names []string) {
	for c := turnOf(ctx); c != nil; c = c.caller {
		names = append(names, c.remote...)
		if c.life != nil && c.runs() {
			names = append(names, c.life.name)
		}
	}
	return names
}

// moved reports whether an error says that nothing was done since the actor is at another host, or its host is about to end while this one isn't.
func moved(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrUnknownOutcome):
		return false
	case errors.Is(err, actorstore.ErrInUse), errors.Is(err, actorstore.ErrFenced):
		return true
	}
	return errors.As(err, new(*remoteError)) && (errors.Is(err, ErrClosed) || errors.Is(err, ErrNotAwake))
}

// owner returns the host that has an actor, by the error of a call, nil if that isn't known, or the host takes no requests.
func (f *forwarder) owner(err error) *actorstore.HostInfo {
	in := (*actorstore.InUseError)(nil)
	if !errors.As(err, &in) || in.Host.Offer.Address == "" || in.Host.ID == f.host.store.Self() {
		return nil
	}
	return &in.Host
}

// forwardedKey is the key of a context of what another host has forwarded.
type forwardedKey struct{}

// Answer does what another host has forwarded, with a request that its Carrier was given, and returns the answer, also for one that can't be understood. The
// context has the caller: see WithCaller.
func (f *forwarder) Answer(ctx context.Context, text []byte) []byte {
	r := &request{}
	if err := decodeWire(text, r); err != nil {
		return tell(nil, err)
	}
	ctx = context.WithValue(ctx, forwardedKey{}, r)
	if len(r.Waiting) > 0 {
		c := newTurnContext(ctx, 0)
		defer c.end()
		c.remote, ctx = r.Waiting, c
	}
	return tell(r.do(ctx, f.host))
}
