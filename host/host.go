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
// # Sleep
//
// An actor without turns, held connections and running steps of its workflow leaves
// memory after a while, with all that belongs to it. What is due later, and messages and
// calls, wake it. Connections that hibernate stay with the holders of their transports.
//
// # What it is not
//
// No server: listening, and deciding on rights, are for others. No cluster: a call for an
// actor that another host has is an error that says which one (actorstore.InUseError).
package host

// Files, from the top down:
//
//	action.go program.go connect.go course.go open.go absence.go alarms.go oldalarms.go call.go courier.go
//	birth.go schedule.go flow.go flowspans.go flowsteps.go letters.go mail.go messages.go outbox.go
//	inbox.go conns.go spans.go turn.go gate.go context.go sleep.go visit.go host.go troubles.go awake.go deadline.go life.go type.go
//	usage.go metrics.go args.go raw.go keys.go address.go errors.go spannames.go options.go

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/metrics"
)

// A Host runs the actors of one store. It is safe for concurrent use.
type Host struct {
	metered
	engine   kv.Engine
	door     *greenroom.Store
	store    *actorstore.Store // of door
	types    map[string]*kind
	owners   map[*action]*kind // whose actions they are
	opts     Options
	log      *slog.Logger
	meter    metrics.Meter
	alarms   *alarms
	away     transports
	couriers *couriers
	troubles troubles
	clock    func() time.Time
	started  time.Time

	using sync.RWMutex // held for reading while the engine is used without the store
	ended bool         // the engine may be closed  +checklocks:using

	ctx  context.Context // of everything without a waiting caller
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool             // +checklocks:mu
	lives   map[string]*life // by the text of the address  +checklocks:mu
	idle    *list.List       // of *life that are awake and have nothing to do, the longest first  +checklocks:mu
	leaving int              // of lives, those on their way to sleep  +checklocks:mu
	waiters waiters          // +checklocks:mu
	granted int              // waiters that were told to come, and have not yet  +checklocks:mu
	changed chan struct{}    // closed when a life has gone, for Close; nil unless it waits  +checklocks:mu
}

// Open opens a host with actors of the types on an engine, which stays its opener's to
// close, after the host. It opens the store itself, reads when which actor must be
// woken, and begins to do so. nil opts are the zero Options.
//
// Errors: ErrTypes, and those of actorstore.Open and of the engine.
func Open(ctx context.Context, engine kv.Engine, types []*Type, opts *Options) (*Host, error) {
	kinds, owners, err := newKinds(types)
	if err != nil {
		return nil, err
	}
	h := &Host{
		engine: engine, types: kinds, owners: owners, opts: opts.orDefault(), clock: time.Now,
		lives: map[string]*life{}, idle: list.New(),
	}
	h.metered.host, h.started = h, h.clock()
	h.log, h.meter.To = h.opts.Logger, h.opts.Metrics
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
	h.couriers = newCouriers(h)
	h.alarms = newAlarms(h)
	if err := h.alarms.start(ctx); err != nil {
		h.alarms.Close()
		h.stop()
		return nil, errors.Join(fmt.Errorf("host: read when actors must be woken: %w", err), store.Close())
	}
	return h, nil
}

// newKinds returns the types by their names, and by their actions. No action may be in two types: a call that names the
// action alone would not know whose it is.
func newKinds(types []*Type) (kinds map[string]*kind, owners map[*action]*kind, err error) {
	kinds, owners = map[string]*kind{}, map[*action]*kind{}
	for _, t := range types {
		k, err := newKind(t)
		if err != nil {
			return nil, nil, err
		}
		if kinds[t.Name] != nil {
			return nil, nil, fmt.Errorf("%w: there are two %q", ErrTypes, t.Name)
		}
		kinds[t.Name] = k
		for _, a := range k.actions {
			if o := owners[a]; o != nil {
				return nil, nil, fmt.Errorf("%w: both %s and %s list the same action %q", ErrTypes, o.Name, t.Name, a.Name)
			}
			owners[a] = k
		}
	}
	return kinds, owners, nil
}

// Store returns the store of the host: to look at actors, and to list them. An actor
// that is taken over through it is lost to the host.
func (h *Host) Store() *greenroom.Store { return h.door }

// Types returns the names of the types, sorted.
func (h *Host) Types() []string { return slices.Sorted(maps.Keys(h.types)) }

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
		at := l.used.mark()
		all = append(all, actorstore.ActorUsage{ID: l.actor.ID(), Name: l.name, Usage: l.used.unstored(&at)})
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

// Ready returns nil if h takes calls, its store answers, and the store's disk has Options.MinFree bytes free where that is known; else
// why not. An error of the kind greenroom.ErrNoSpace says that the disk has less: commits are refused there soon, and reads go on. It
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
		free, known, err := kv.FreeSpace(e)
		if known && free < h.opts.MinFree {
			err = fmt.Errorf("%w: the store's disk has %d bytes free, and less than %d", greenroom.ErrNoSpace, free, h.opts.MinFree)
		}
		return err
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

// closing says that Close was called.
func (h *Host) closing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

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
