package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/routes"
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
	host    *Host
	routes  *routes.Table // nil for a host that forwards nothing
	telling sync.Mutex    // held while others are told, so that what they are told last is what is so
}

// tell tells the other hosts what this one does, and that it is leaving, if it is or was.
func (f *forwarder) tell(ctx context.Context, leaving bool) error {
	f.telling.Lock()
	defer f.telling.Unlock()
	return f.routes.Offer(ctx, f.offer(leaving || f.routes.Leaving()))
}

// offer returns what the host tells the others.
func (f *forwarder) offer(leaving bool) *actorstore.Offer {
	h := f.host
	o := &actorstore.Offer{Address: h.opts.Peers.Address, Leaving: leaving}
	for _, name := range h.Types() {
		o.Types = append(o.Types, actorstore.OfferedType{Name: name, Schema: uint32(h.kind(name).Migrations.Latest())})
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
	return f.tell(ctx, false)
}

const (
	// moves bounds how often a request follows an actor that moves, and movePause, from the second time on, the pauses between, which double.
	moves, movePause, maxMovePause = 24, 5 * time.Millisecond, 200 * time.Millisecond
	// deafMoves is how often a request asks again for an actor of a host that takes no requests: for some 300 ms in all.
	deafMoves = 6
)

// ask asks something of an actor where it is: here does it at this host, and else say has the request for another one, whose answer is far. What was
// forwarded once isn't forwarded again.
func (f *forwarder) ask(ctx context.Context, a Address, say func() (*request, error), here func(ctx context.Context) error) (far *answer, err error) {
	if f.routes == nil || ctx.Value(forwardedKey{}) != nil {
		return nil, here(ctx)
	}
	var text []byte
	err = f.Follow(ctx, a, func(ctx context.Context) error {
		far = nil
		return here(ctx)
	}, func(ctx context.Context, to *actorstore.HostInfo) (err error) {
		if text == nil {
			r, err := say()
			if err == nil {
				r.Waiting = waiting(ctx)
				text, err = encodeWire(r)
			}
			if err != nil {
				return fmt.Errorf("%w: %w", ErrArgs, err)
			}
		}
		f.host.meter.Count(metricForwarded, 1)
		far = nil
		told, err := f.host.opts.Peers.Carry.Carry(ctx, to, text)
		if err == nil {
			far, err = readAnswer(to, told)
		}
		return err
	})
	return far, err
}

// Follow does something with an actor where it is: by here at this host, or by there at another one, and again if the actor turns out to be somewhere else, or to
// move. The error is that of the last of these. ErrUnreachable of there says that nothing was done, unless the other host has told it; ToldError is what the other host says, and anything else is as it is of
// here. A host without Options.Peers calls here.
func (f *forwarder) Follow(ctx context.Context, a Address, here func(ctx context.Context) error, there func(ctx context.Context, to *actorstore.HostInfo) error) error {
	if f.routes == nil || ctx.Value(forwardedKey{}) != nil {
		err := here(ctx)
		if handed := (*handedError)(nil); errors.As(err, &handed) {
			handed.at.leave() // its caller is at another host
		}
		return err
	}
	name := a.String()
	// Where the actor is as the last error says; a nil owner is this host.
	var owner *actorstore.HostInfo
	known := false
	for n := 0; ; n++ {
		to := owner
		switch {
		case f.host.life(name) != nil:
			to = nil
		case !known:
			to = f.routes.Where(ctx, a.Type, name)
		}
		var err error
		if to == nil {
			err = here(ctx)
		} else if err = there(ctx, to); errors.Is(err, ErrUnreachable) && !errors.As(err, new(*remoteError)) {
			unreachable := err
			f.routes.Down(to.ID)
			f.routes.Forget(name)
			err = here(ctx) // if it has died its actors are free
			if at := f.owner(err); errors.Is(err, actorstore.ErrInUse) && (at == nil || at.ID == to.ID) || errors.Is(err, ErrNoType) {
				return unreachable
			}
		} else if err == nil || !moved(err) {
			f.routes.Learn(name, to)
		}
		if handed := (*handedError)(nil); moved(err) && errors.As(err, &handed) {
			handed.at.await(ctx)
			defer handed.at.leave()
		}
		if newer := (*actorstore.SchemaError)(nil); moved(err) && errors.As(err, &newer) {
			f.routes.Forget(name)
			owner, known = f.routes.Newer(ctx, a.Type, name, newer.Found)
			if !known || n == moves {
				return err
			}
		} else if !moved(err) || f.note(name, to, err) && n >= deafMoves {
			return err
		} else {
			owner = f.owner(err)
			known = owner != nil
		}
		if n == moves {
			return fmt.Errorf("%w: it moves: %w", ErrUnreachable, err)
		}
		if n > 0 {
			select {
			case <-time.After(min(movePause<<min(n, 10), maxMovePause)):
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			}
		}
	}
}

// note notes where an actor has moved to since it was asked for at a host, nil for this one, and says whether that is a host that takes no requests.
func (f *forwarder) note(name string, to *actorstore.HostInfo, err error) (deaf bool) {
	if at := f.owner(err); at != nil {
		f.routes.Learn(name, at)
		return false
	}
	f.routes.Forget(name)
	if to != nil && !errors.Is(err, actorstore.ErrInUse) {
		f.routes.Down(to.ID) // it is about to end
	}
	in := (*actorstore.InUseError)(nil)
	// A host that isn't known is about to have the actor, or was.
	return errors.As(err, &in) && !in.Host.ID.IsZero() && in.Host.Offer.Address == ""
}

// Release says that a hibernating connection has its client at another host now, if it had t here.
func (f *forwarder) Release(a Address, id conn.ID, t Transport) {
	f.host.away.release(a.String(), id, t)
}

// waiting returns the names of the actors that wait, in turns, for what is done with a context.
func waiting(ctx context.Context) (names []string) {
	for c := waiter(ctx); c != nil; c = c.caller {
		names = append(names, c.remote...)
		if c.life != nil && c.runs() {
			names = append(append(names, c.life.name), c.beside...)
		}
	}
	return names
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

// Forwards says whether a call of an actor of a type may be forwarded: another host runs the type.
func (f *forwarder) Forwards(ctx context.Context, typ string) bool {
	return f.routes != nil && f.routes.Runs(ctx, typ)
}

// WithoutForwarding returns a context with which a Host does what it is asked for itself, or not at all.
func WithoutForwarding(ctx context.Context) context.Context {
	return context.WithValue(ctx, forwardedKey{}, true)
}

// Answer does what another host has forwarded, with a request that its Carrier was given, and returns the answer, also for one that can't be understood. The
// context has the caller: see WithCaller.
func (f *forwarder) Answer(ctx context.Context, text []byte) []byte {
	r := &request{}
	if err := decodeWire(text, r); err != nil {
		return TellError(err)
	}
	if r.Kind != requestGather && f.elsewhere(r.Actor) && f.host.life(r.Actor.String()) == nil {
		return TellError(errHanded)
	}
	ctx = WithoutForwarding(ctx)
	if len(r.Waiting) > 0 {
		c := newTurnContext(ctx, 0)
		defer c.end()
		c.remote, ctx = r.Waiting, c
	}
	return r.answer(ctx, f.host).encode()
}
