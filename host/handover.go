package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// handedAtOnce bounds the actors that leave at once, and handEvery is how often those are looked at that can't.
	handedAtOnce, handEvery = 16, 50 * time.Millisecond
)

// HandOver gives the actors of a host that is about to end to the other hosts of its store, some at a time, while it serves: turns that have begun end, what waits for an actor is
// forwarded to the host that has it then, and so is what comes later. Clients' connections that hibernate go on, too. It takes no more actors
// from now on, unless no other host runs their type.
//
// An actor that KeepAwake, a running step or a connection that doesn't hibernate keeps in memory stays until that has ended. HandOver returns when no actor that
// another host can have is left; nil at once for a host without Options.Peers. The error is that of the context, and the rest is Close's.
func (f *forwarder) HandOver(ctx context.Context) error {
	if f.routes == nil {
		return nil
	}
	if err := f.tell(ctx, true); err != nil {
		f.host.log.Warn("host: tell other hosts", slog.Any("error", err)) // a call that they forward is sent back
	}
	f.routes.Refresh(ctx)
	places := make(chan struct{}, handedAtOnce)
	for {
		var work sync.WaitGroup
		rest := 0
		for _, l := range f.host.all() {
			if f.routes.Other(l.addr.Type, l.name, l.kind.Migrations.Latest()) == nil {
				continue
			}
			rest++
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				break
			}
			work.Go(func() {
				defer func() { <-places }()
				if f.dismiss(ctx, l) {
					f.host.away.moved(l.name)
				}
			})
		}
		work.Wait()
		if rest == 0 {
			f.host.away.moved("")
			return nil
		}
		select {
		case <-time.After(handEvery):
		case <-ctx.Done():
			return fmt.Errorf("host: %d actors are still here: %w", rest, ctx.Err())
		}
	}
}

// elsewhere says whether an actor that isn't here belongs to another host, since this one is about to end.
func (f *forwarder) elsewhere(a Address) bool {
	return f.routes != nil && f.routes.Leaving() && f.routes.Other(a.Type, a.String(), 0) != nil
}

// dismiss lets an actor leave memory, unless something keeps it, and says whether it did.
func (f *forwarder) dismiss(ctx context.Context, l *life) bool {
	h := f.host
	h.mu.Lock()
	if l.phase != awake || l.held+l.kept > 0 || l.running.Load() {
		h.mu.Unlock()
		return false
	}
	l.depart()
	close(l.sleep)
	h.mu.Unlock()
	select {
	case <-l.left:
		return true
	case <-ctx.Done():
		return false
	}
}

// gather tells the other hosts that an actor is here, of which they may have clients.
func (f *forwarder) gather(a Address) {
	if f.routes == nil {
		return
	}
	text, err := encodeWire(&request{Kind: requestGather, Actor: a})
	if err != nil {
		f.host.log.Error("host: ask other hosts for clients", slog.Any("error", err))
		return
	}
	ctx, cancel := context.WithTimeout(f.host.ctx, gatherTime)
	defer cancel()
	var work sync.WaitGroup
	for _, h := range f.routes.Hosts(ctx) {
		work.Go(func() {
			if _, err := f.host.opts.Peers.Carry.Carry(ctx, &h, text); err != nil && ctx.Err() == nil {
				f.host.log.Debug("host: ask another host for clients", slog.String("host", h.Name), slog.Any("error", err))
			}
		})
	}
	work.Wait()
}

// gatherTime bounds asking other hosts for clients. One that doesn't answer keeps them until they ask for something.
const gatherTime = 5 * time.Second

// A Mover is a Transport that is told when its connection's actor is, or may be, at another host. It must not wait.
type Mover interface{ Moved() }
