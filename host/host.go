// Package host runs actors: it wakes them when something is wanted of them, gives
// each one turn at a time, and puts them to sleep when nothing is.
//
// A type of actors is a Type: actions and hooks. An actor is addressed by its type and a
// key, and exists from its first use.
//
//	var Add = host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
//		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
//		return total, err
//	})
//
//	counter := &host.Type{Name: "counter", Actions: []host.AnyAction{Add}}
//	h, err := host.Open(ctx, engine, []*host.Type{counter}, nil)
//	total, err := Add.Call(ctx, h, "lobby", 2)
//
// # Turns
//
// A turn is a transaction, a greenroom.Tx. What it writes through its Context (SQL, user
// keys, messages, state, connections, what is scheduled) lands in one commit when its
// function returns nil, and not at all when it returns an error, panics, or the commit is
// refused. One turn of an actor runs at a time; many actors run side by side.
//
// The next turn begins as soon as a commit is applied, and doesn't wait until it is on
// stable storage. What a turn sends does: replies, events and everything else leave, in
// the order of the turns, when what they are based on is durable. One wait for that
// serves all turns that were made meanwhile. If it fails nothing leaves, and callers are
// told that the outcome is not known.
//
// # A stay in memory
//
// An actor that is in memory is in one of four phases (stay.go):
//
//	waking ──────────▶ awake ──────────▶ leaving ──────────▶ gone
//	  │  parts are open,   idle, too many awake,   parts are closed,    ▲
//	  │  Wake has returned  host closes, lost,     the row of the       │
//	  │                     destroyed              alarm is stored      │
//	  └────── Create or Wake fails, or another host has the actor ──────┘
//
// What is wanted of an actor that is leaving waits until it is gone, and wakes it again. The goroutine of the actor goes through
// these as a course of stages (course.go).
//
// # Sleep
//
// An actor without turns, held connections and running steps of its workflow leaves
// memory after a while, with all that belongs to it. What is due later, and messages and
// calls, wake it. Connections that hibernate stay with the holders of their transports.
//
// # What it is not
//
// No server: listening, and deciding on rights, are for others. No network between hosts: Options.Peers has that, and without it a call for an
// actor that another host has is an error that says which one (actorstore.InUseError).
package host

// Files, from the top down:
//
//	inbox.go action.go program.go flowsteps.go open.go schedule.go sending.go courier.go course.go connect.go
//	describe.go replace.go migrate.go call.go together.go handover.go forward.go request.go failure.go idempotency.go sleep.go args.go mail.go visit.go birth.go schema.go closing.go connections.go remnant.go outbox.go alarms.go
//	flow.go consumer.go worker.go permit.go desk.go keepawake.go flowspans.go context.go turn.go connchanges.go host.go troubles.go callers.go
//	gate.go joint.go options.go deadline.go transports.go roster.go life.go kinds.go type.go raw.go stay.go
//	metrics.go spans.go
//	limit.go identity.go spannames.go letters.go address.go errors.go keys.go

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/wake"
	"github.com/greenroomdb/greenroom/kv"
)

// A Host runs the actors of one store. It is safe for concurrent use.
type Host struct {
	roster
	metered
	forwarder
	upgrader
	catalog
	engine   kv.Engine
	door     *greenroom.Store
	store    *actorstore.Store // of door
	opts     Options
	log      *slog.Logger
	alarms   *alarms
	away     transports
	couriers *couriers
	limits   *limiters
	troubles troubles
	started  time.Time

	using sync.RWMutex // held for reading while the engine is used without the store
	ended bool         // the engine may be closed  +checklocks:using

	ctx  context.Context // of everything without a waiting caller
	stop context.CancelFunc
}

// Open opens a host with actors of the types on an engine, which stays its opener's to
// close, after the host. It opens the store itself, reads when which actor must be
// woken, and begins to do so. nil opts are the zero Options.
//
// Errors: ErrTypes, and those of actorstore.Open and of the engine.
func Open(ctx context.Context, engine kv.Engine, types []*Type, opts *Options) (*Host, error) {
	kinds, err := newKinds(types)
	if err != nil {
		return nil, err
	}
	shared, err := newLimiters(kinds.byName)
	if err != nil {
		return nil, err
	}
	h := &Host{
		engine: engine, opts: opts.orDefault(), limits: shared,
		roster: roster{clock: time.Now, lives: map[string]*life{}, idle: list.New(), crowded: make(chan struct{}, 1)},
	}
	h.metered.host, h.upgrader.host, h.started = h, h, h.clock()
	h.catalog.now.Store(kinds)
	h.log, h.meter.To = h.opts.Logger, h.opts.Metrics
	h.most, h.roster.rest = h.opts.MaxAwake, max(h.opts.IdleTimeout, 0)
	var o greenroom.Options
	if h.opts.Store != nil {
		o = *h.opts.Store
	}
	o.Logger = cmp.Or(o.Logger, h.log)
	if o.Metrics == nil {
		o.Metrics = h.meter.To
	}
	store, err := greenroom.New(ctx, engine, &o)
	if err != nil {
		return nil, err
	}
	h.door, h.store = store, store.Lower()
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.couriers = h.newCouriers()
	h.alarms = h.newAlarms()
	if err := h.begin(ctx, kinds); err != nil {
		h.alarms.Close()
		h.stop()
		h.limits.work.Wait()
		return nil, errors.Join(err, store.Close())
	}
	return h, nil
}

// begin tells the other hosts of this one, and wakes the actors whose time has come.
func (h *Host) begin(ctx context.Context, kinds *kinds) error {
	for _, k := range kinds.byName {
		// Without room the first actor that is brought up does it.
		if err := k.noteVersioned(ctx, h.engine); err != nil && !errors.Is(err, greenroom.ErrNoSpace) {
			return err
		}
	}
	if err := h.meet(ctx, h); err != nil { // before anything wakes actors
		return fmt.Errorf("host: tell other hosts: %w", err)
	}
	h.limits.start(h)
	if err := h.alarms.start(ctx); err != nil {
		return fmt.Errorf("host: read when actors must be woken: %w", err)
	}
	return nil
}

// enter returns the actor awake, and counts the caller among its users until leave.
// b is what an actor that doesn't exist yet is created with; nil means that it isn't.
// by says which kind of caller it is.
func (h *Host) enter(ctx context.Context, a Address, b *birth, by caller) (*life, error) {
	name, err := a.check()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	kind := h.kind(a.Type)
	if kind == nil {
		return nil, ErrNoType
	}
	if kind.MustCreate && b != nil && !b.asked {
		b = nil
	}
	for {
		if h.closed {
			return nil, ErrClosed
		}
		l := h.lives[name]
		if l == nil {
			if h.elsewhere(a) {
				return nil, errHanded
			}
			if by == byCoordinator && !h.roomy() {
				return nil, errNoRoom
			}
			if err := h.room(ctx, name, by == byCourier); err != nil {
				return nil, err
			}
			if l = h.lives[name]; l == nil { // no other caller was quicker
				l = h.newLife(h.kind(a.Type), a, name, b)
				h.lives[name] = l
				go l.course.main()
			}
			continue
		}
		if err := nested(ctx, l); err != nil {
			return nil, err
		}
		switch l.phase {
		case awake:
			h.use(&l.stay)
			return l, nil
		case waking:
			// A user from now on: else it might be put to sleep for another actor before its
			// turn comes, again and again.
			h.use(&l.stay)
			if err := await(ctx, &h.mu, l.woken); err != nil {
				l.users--
				l.settle()
				return nil, err
			}
			if l.failure == nil {
				return l, nil
			}
			l.users--
			switch {
			case errors.Is(l.failure, kv.ErrIncarnation) && (b == nil || b.in != l.birth.in):
				continue // it was woken for a letter that may be lost, which is another one's
			case l.stillborn && b == nil:
				return nil, ErrNoActor
			case l.stillborn && !b.like(l.birth):
				continue // it was not created with another input
			}
			// A caller that would create the actor tries again after ErrNoActor, unless the actor was
			// created just now and has destroyed itself.
			made := l.birth != nil && !l.creation.existed
			if b == nil || made || !noActor(l.failure) {
				return nil, l.failure
			}
		default:
			if err := await(ctx, &h.mu, l.left); err != nil {
				return nil, err
			}
			if by == byAlarm && l.restored {
				return nil, errRestored
			}
		}
	}
}

// newLife returns the stay of an actor that begins.
func (h *Host) newLife(kind *kind, a Address, name string, b *birth) *life {
	l := &life{
		stay: stay{
			roster: &h.roster, name: name,
			woken: make(chan struct{}), sleep: make(chan struct{}), empty: make(chan struct{}), left: make(chan struct{}),
		},
		host: h, kind: kind, addr: a, birth: b,
		log:     h.log.With(slog.String("actor", name)),
		mailbox: make(chan *turn, h.opts.Mailbox), inner: make(chan *turn), over: make(chan struct{}),
	}
	l.gate.life, l.creation.life, l.out.life, l.conns.life = l, l, l, l
	l.course.begin(l)
	l.steady = context.WithoutCancel(h.ctx)
	l.turns, l.end = context.WithCancel(h.ctx)
	l.ctx, l.cancel = context.WithCancel(l.turns)
	return l
}

// turn runs t in the actor and returns when t's effects are durable.
func (h *Host) turn(ctx context.Context, a Address, b *birth, t *turn) error {
	t.caller = waiter(ctx)
	for {
		l, err := h.enter(ctx, a, b, t.by())
		if err != nil {
			return err
		}
		t.life, t.patient = l, true
		if err := l.post(ctx, t); err != nil {
			l.leave()
			return err
		}
		switch err := t.wait(ctx); {
		case err != errAgain:
			return err
		case t.place != nil:
			return &handedError{t.place}
		}
		t = t.again()
	}
}

// Store returns the store of the host: to look at actors, and to list them. An actor
// that is taken over through it is lost to the host.
func (h *Host) Store() *greenroom.Store { return h.door }

// metered is what a Host says of what its actors use.
type metered struct{ host *Host }

// Usage returns what the actors that are awake have used and the store doesn't say yet, in the order of their names. What it says,
// actorstore.ActorInfo.Usage has.
func (m *metered) Usage() []actorstore.ActorUsage {
	h := m.host
	var lives []*life
	h.mu.Lock()
	for _, l := range h.lives {
		if l.phase == awake {
			lives = append(lives, l)
		}
	}
	h.mu.Unlock()
	all := make([]actorstore.ActorUsage, 0, len(lives))
	for _, l := range lives {
		all = append(all, actorstore.ActorUsage{ID: l.actor.ID(), Name: l.name, Usage: l.used.Unstored()})
	}
	slices.SortFunc(all, func(a, b actorstore.ActorUsage) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stats is what a host does at one moment.
type Stats struct {
	Awake   int // actors in memory, those that wake or go to sleep included
	Idle    int // of these, those that have nothing to do
	Waiting int // calls, and couriers, that wait until there is room for one more actor
	Alarms  int // sleeping actors that are to be woken now, or within some seconds
	// Couriers are what carries messages from actor to actor at the moment, and Senders the
	// actors of which messages are under way.
	Couriers, Senders int
}

// Stats returns what h does now.
func (h *Host) Stats() Stats {
	busy, senders := h.couriers.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{len(h.lives), h.idle.Len(), h.waiters.len(), h.alarms.Len(), busy, senders}
}

// Ready returns nil if h takes calls, its store answers, and the store's disk has the room that its engine keeps free (kv.Roomer,
// pebblekv.Options.MinFree); else why not. An error of the kind greenroom.ErrNoSpace says that the disk has less: commits are refused, and reads go on. It
// goes away by itself when there is room.
func (h *Host) Ready(ctx context.Context) error {
	if h.closing() {
		return ErrClosed
	}
	err := h.onEngine(func(e kv.Engine) error {
		// A key that is never there: what counts is that the engine says so.
		if _, err := e.Get(ctx, oldAlarms.Bytes(), nil); err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		return kv.HasRoom(e)
	})
	if err != nil {
		return fmt.Errorf("host: %w", err)
	}
	return nil
}

// Failed returns a channel that is closed when the store has failed for good, as on a
// disk that is broken: nothing can be done then before the engine is opened
// again, best by a new process. Ready says why. The channel of an engine that is not a
// kv.Failer is nil: such a one goes on when it can.
func (h *Host) Failed() <-chan struct{} { return kv.Failed(h.engine) }

// onEngine calls fn with the engine, unless that may be closed by now: an actor
// that Close gave up may still be at work.
func (h *Host) onEngine(fn func(e kv.Engine) error) error {
	h.using.RLock()
	defer h.using.RUnlock()
	if h.ended {
		return ErrClosed
	}
	return fn(h.engine)
}

// Close ends the host in good order: it refuses new calls, waits for the turns that are
// under way and those that wait for their actors, puts all actors to sleep and closes
// the store. When the context ends it gives up what is still under way: those calls get
// an error, and nothing of their turns lands unless their commit has begun.
//
// An error says that not everything could be put to sleep in good order. A second
// Close returns nil. In a turn of an actor of the host Close is greenroom.ErrNested, and does
// nothing.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	for _, l := range h.lives {
		if err := nested(ctx, l); err != nil {
			h.mu.Unlock()
			return err
		}
	}
	h.closed = true
	for _, l := range h.lives {
		l.rest()
	}
	for h.waiters.len() > 0 {
		h.granted++
		close(h.waiters.next())
	}
	h.mu.Unlock()
	h.alarms.Close()
	err := h.drained(ctx)
	h.stop()
	h.couriers.close()
	h.limits.work.Wait()
	h.alarms.adopting.Wait()
	h.using.Lock()
	h.ended = true
	h.using.Unlock()
	return errors.Join(err, h.store.Close())
}

// drained waits until all actors sleep.
func (h *Host) drained(ctx context.Context) error {
	for {
		h.mu.Lock()
		n := len(h.lives)
		h.changed = make(chan struct{})
		gone := h.changed
		h.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return fmt.Errorf("host: %d actors are still awake: %w", n, ctx.Err())
		}
	}
}

// newAlarms returns what wakes the actors of h.
func (h *Host) newAlarms() *alarms {
	s := &alarms{host: h}
	s.Table = wake.New(wake.Options{
		Store: h.store, Now: h.clock, Every: h.opts.Rescan, Due: s.due, Awake: s.awake, Wake: s.wake, Logger: h.log,
	})
	return s
}

// newCouriers returns what carries letters between the actors of h.
func (h *Host) newCouriers() *couriers {
	return &couriers{host: h, mails: map[string]*mail{}, visits: map[way]*visit{}, limit: maxHeld, most: h.opts.Couriers}
}
