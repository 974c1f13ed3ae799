package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Couriers carry letters from the actors that have sent them to the queues of others.
// They belong to the host and not to the sender's stay in memory: where only few actors
// may be awake, the sender may have to sleep for the receiver to wake.
//
// What they carry they may lose: it is in the sender's outbox, which hands it out again.
type couriers struct {
	host   *Host
	mu     sync.Mutex
	routes map[route]*courier // those that are under way  +checklocks:mu
	closed bool               // +checklocks:mu
	work   sync.WaitGroup
}

// A route is a way from one actor to another.
type route struct{ from, to string }

// A courier goes one route, as long as there is something to carry.
type courier struct {
	letters []*letter // in their order  +checklocks:couriers.mu
	newest  *letter   // that it was handed  +checklocks:couriers.mu
}

const (
	// lettersAtOnce is how many letters go with one turn of the receiver.
	lettersAtOnce = 64
	// attempts is how often a courier tries, in a row, before it leaves the rest to the outbox.
	attempts = 4
)

// hand takes letters of an actor, in their order, that are durable. Those that are under
// way already it doesn't take twice.
func (cs *couriers) hand(from Address, letters []*letter) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return
	}
	for _, l := range letters {
		way := l.route(from.String())
		r := cs.routes[way]
		if r == nil {
			r = &courier{}
			cs.routes[way] = r
			cs.work.Go(func() { cs.carry(from, way, r) })
		}
		if r.newest != nil && r.newest.nonce == l.nonce && r.newest.number >= l.number {
			continue
		}
		r.letters, r.newest = append(r.letters, l), l
	}
}

// close ends the couriers once the host's context has ended.
func (cs *couriers) close() {
	cs.mu.Lock()
	cs.closed = true
	cs.mu.Unlock()
	cs.work.Wait()
}

// next returns what is to be carried next, without what has come; when nothing is left,
// or the courier gives up, it is gone.
func (cs *couriers) next(way route, r *courier, came int, giveUp bool) []*letter {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	r.letters = r.letters[came:]
	if len(r.letters) == 0 || giveUp {
		delete(cs.routes, way)
		return nil
	}
	return r.letters[:min(len(r.letters), lettersAtOnce)]
}

// carry carries letters until there are none, or it isn't to be done now.
func (cs *couriers) carry(from Address, way route, r *courier) {
	h := cs.host
	to, err := ParseAddress(way.to)
	if err != nil {
		h.log.Error("host: message to nobody", slog.String("actor", way.from), slog.Any("error", err))
	}
	came, failures := 0, 0
	for {
		letters := cs.next(way, r, came, err != nil && (failures >= attempts || h.ctx.Err() != nil || errors.Is(err, ErrClosed)))
		if letters == nil {
			return
		}
		if failures > 0 && !pause(h.ctx, backoff(failures)) {
			came = 0
			continue
		}
		came, err = h.deliver(to, from, letters)
		if failures++; came > 0 {
			failures = min(1, failures)
			h.settle(from, letters[:came])
		}
		if err == nil {
			failures = 0
			continue
		}
		h.count(metricRetried, 1)
		h.log.Warn("host: message to another actor", slog.String("actor", way.from), slog.String("to", way.to), slog.Any("error", err))
	}
}

// pause waits, and says whether it did to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// deliver puts letters into an actor's queue, durably, and returns how many of them, from
// the first on, are settled: there, or such that they never will be. err says why not all.
func (h *Host) deliver(to, from Address, letters []*letter) (came int, err error) {
	var full error
	t := newTurn("actor.deliver", func(c *Context) error {
		came, full = c.take(from, letters)
		if came == 0 {
			return full
		}
		return nil
	})
	t.must = true
	if err := h.turn(h.ctx, to, &birth{}, t); err != nil {
		return 0, err // and came is not to be looked at: the turn may still be running
	}
	return came, full
}

// settle has the sender forget what has come. If it can't, the letters are handed out
// again, and come to who has them already.
func (h *Host) settle(from Address, letters []*letter) {
	t := newTurn("actor.arrived", func(c *Context) error {
		c.arrived(letters)
		return nil
	})
	t.must = true
	h.mu.Lock()
	l := h.lives[from.String()]
	h.mu.Unlock()
	err := ErrNotAwake
	if l != nil { // also while it goes to sleep
		err = l.inward(h.ctx, t)
	}
	if errors.Is(err, ErrNotAwake) || errors.Is(err, errAgain) {
		err = h.turn(h.ctx, from, nil, &turn{name: t.name, run: t.run, must: true, done: make(chan error, 1)})
	}
	if err != nil && !errors.Is(err, ErrNoActor) && h.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		h.log.Warn("host: messages have come", slog.String("actor", from.String()), slog.Any("error", err))
	}
}
