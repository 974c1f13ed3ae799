package actorstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Where the owners of actors may be in other processes, each Store that owns actors
// is a host with a lease: one row, which it rewrites three times in a TTL. As long as
// the lease holds, no other host claims an actor of this one, and so its handles
// answer without asking the engine whose the actor is. What they write is fenced by
// the head as ever: no clock has a say in what is stored.
//
// A claim, and what is rewritten of a host, is durable at once: an owner that keeps
// answering from memory would never learn that its claim was lost in a crash of the
// engine's machine.

// hosting is a Store's place among the hosts of its engine.
type hosting struct {
	store *Store
	opts  HostOptions
	clock steady
	gone  func(*layout.Host) bool // whether the process of a row provably ended

	registering chan struct{}        // a lock: holds one token
	now         atomic.Pointer[host] // nil before the first

	mu   sync.Mutex
	seen map[HostID]sighting // of other hosts  +checklocks:mu
}

func (g *hosting) init(s *Store, opts HostOptions) (err error) {
	g.store, g.registering, g.seen = s, make(chan struct{}, 1), map[HostID]sighting{}
	if g.opts, err = opts.orDefault(); err != nil {
		return err
	}
	g.clock.start(s.millis)
	g.gone = hasEnded
	return nil
}

// mostRetry bounds how long a host pauses between two renewals that it needs. Its actors
// can't be opened meanwhile, so the pause doesn't grow with the TTL.
const mostRetry = time.Second

// A host is one lease of a Store. A Store that has lost it gets another one with the
// next actor.
type host struct {
	hosting *hosting
	id      HostID
	key     []byte
	// every is how often the lease is renewed, retry how soon after a failure, or after the
	// renewal before when a handle needs one.
	every, retry time.Duration

	term  atomic.Pointer[term] // the newest one, nil when the lease is lost
	shown atomic.Pointer[HostInfo]
	hurry chan struct{} // asks for a renewal before its time
	stop  context.CancelFunc
	done  chan struct{} // closed when nothing renews any more

	// What is stored, as far as known: the renewing goroutine's, and whose there is
	// before and after it.
	row    layout.Host
	stored []byte

	mu      sync.Mutex
	tried   chan struct{} // closed when a renewal has ended, and made anew  +checklocks:mu
	lost    bool          // +checklocks:mu
	handles map[ID]*Actor // +checklocks:mu
	// unclaimed are the owner rows that are still to be removed.
	unclaimed map[ID]unclaim // +checklocks:mu
	released  released       // +checklocks:mu
}

// errHostLost is why the handles of a host are fenced whose lease another host ended.
var errHostLost = errors.New("the lease of its host was not renewed in time, and others have taken over")

// errWanted is why a handle is fenced that its own host gave up.
var errWanted = errors.New("another host took it over")

// join makes the handle one of a host that has a lease.
func (g *hosting) join(ctx context.Context, a *Actor) error {
	for {
		if h := g.now.Load(); h != nil {
			h.settle(ctx)
			if h.enter(a) {
				a.host = h
				return nil
			}
		}
		if err := g.register(ctx); err != nil {
			return fmt.Errorf("actorstore: register as a host: %w", err)
		}
	}
}

// register makes the Store a host, unless it is one.
func (g *hosting) register(ctx context.Context) error {
	select {
	case g.registering <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.registering }()
	if err := g.store.check(); err != nil {
		return err
	}
	if h := g.now.Load(); h != nil && !h.isLost() {
		return nil
	}
	h := g.newHost()
	// One that takes longer would begin with a lease that is over.
	ctx, cancel := context.WithTimeout(ctx, g.opts.TTL)
	defer cancel()
	t, row := h.next()
	stored := row.Append(nil)
	err := g.store.eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: h.key, Absent: true}},
		Ops:    []kv.Op{kv.Set(h.key, stored)},
	})
	if err != nil {
		// If it landed all the same the row is of a host that owns nothing.
		return err
	}
	h.renewed(t, row, stored)
	renewing, stop := context.WithCancel(context.Background())
	h.stop = stop
	go h.run(renewing)
	g.now.Store(h)
	return nil
}

func (g *hosting) newHost() *host {
	h := &host{
		hosting: g, every: g.opts.TTL / 3, retry: min(g.opts.TTL/24, mostRetry),
		hurry: make(chan struct{}, 1), done: make(chan struct{}), tried: make(chan struct{}),
		handles: map[ID]*Actor{}, unclaimed: map[ID]unclaim{},
		released: released{in: g.store.eng.Incarnation()},
	}
	rand.Read(h.id[:]) // never fails
	h.key = layout.HostKey(h.id)
	h.row = layout.Host{TTL: uint64(g.opts.TTL.Milliseconds()), Name: g.opts.shownName()}
	if g.opts.Name != "" { // else nothing can be concluded from it
		h.row.Machine, h.row.PID, h.row.Started = identify()
	}
	return h
}

// next returns the term that a renewal would begin if it were sent now, and the row
// that it would write.
func (h *host) next() (*term, layout.Host) {
	t := &term{sent: monotonic(), wall: h.hosting.store.millis(), ttl: h.hosting.opts.TTL, in: h.hosting.store.eng.Incarnation()}
	h.row.Count++ // also for one that fails: others must never see the same number twice
	row := h.row
	row.Wanted = nil
	row.Expires = h.hosting.clock.latest() + int64(row.TTL)
	return t, row
}

// renewed begins a term.
func (h *host) renewed(t *term, row layout.Host, stored []byte) {
	h.row, h.stored = row, stored
	info := hostInfo(h.id, &row)
	h.shown.Store(&info)
	h.term.Store(t)
}

// valid says whether the lease holds at this moment. It neither blocks nor reads.
func (h *host) valid() bool {
	t := h.term.Load()
	if t == nil {
		return false
	}
	// A server that took over may not know of this term.
	if t.in == h.hosting.store.eng.Incarnation() && t.holds(monotonic(), h.hosting.store.millis()) {
		return true
	}
	select {
	case h.hurry <- struct{}{}:
	default:
	}
	return false
}

// run renews the lease until ctx ends or it is lost.
func (h *host) run(ctx context.Context) {
	defer close(h.done)
	var surveys sync.WaitGroup
	defer surveys.Wait()
	surveying := make(chan struct{}, 1)
	rest := h.every
	for n := 0; h.rest(ctx, rest); n++ {
		// What fails of it, readers notice: they look at the head when the lease is
		// over. A call that wants another actor then waits for it.
		rest = h.every
		if err := h.renew(ctx); err != nil {
			rest = h.retry
		}
		h.attempted()
		if h.isLost() {
			return
		}
		select {
		case surveying <- struct{}{}:
			surveys.Go(func() {
				h.survey(ctx)
				h.giveUp(ctx)
				<-surveying
			})
		default: // one is under way
		}
		if n%sweepEvery == 0 {
			h.hosting.sweep(ctx)
		}
	}
}

// settle waits, when the lease is over, until a renewal tells whether it is lost: a
// handle that enters a host that doesn't know it yet is fenced as soon as it does. A renewal that is
// under way may fail for what is over by now, the one after it tells; if not even that
// does, the engine has no answer for the claim, either.
func (h *host) settle(ctx context.Context) {
	for range 2 {
		h.mu.Lock()
		tried := h.tried
		h.mu.Unlock()
		if h.valid() {
			return
		}
		select {
		case <-tried:
		case <-h.done:
		case <-ctx.Done():
		}
	}
}

// survey has the handles find out what they have lost with the engine's server, which may not
// be asked anything for long. One that can't tell yet is asked again.
func (h *host) survey(ctx context.Context) {
	in := h.hosting.store.eng.Incarnation()
	h.mu.Lock()
	handles := slices.Collect(maps.Values(h.handles))
	h.mu.Unlock()
	for _, a := range handles {
		if a.opened() && a.check() == nil && a.incarnation.of() != in && ctx.Err() == nil {
			_ = a.survey(ctx) // a handle that has lost something says so
		}
	}
}

// attempted tells those that wait that a renewal is over.
func (h *host) attempted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.tried)
	h.tried = make(chan struct{})
}

// rest waits until it is time for a renewal, and says whether there shall be one.
func (h *host) rest(ctx context.Context, d time.Duration) bool {
	due, soon := time.NewTimer(d), time.NewTimer(h.retry)
	defer due.Stop()
	defer soon.Stop()
	var hurry <-chan struct{} // which is heard only after a pause
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-soon.C:
			hurry = h.hurry
		case <-hurry:
			return true
		}
	}
}

// renew rewrites the row. As long as it isn't known that it did, the term before is
// all there is.
func (h *host) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.every)
	defer cancel()
	for {
		t, row := h.next()
		stored := row.Append(nil)
		err := h.hosting.store.eng.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: h.key, Value: h.stored}},
			Ops:    []kv.Op{kv.Set(h.key, stored)},
		})
		if err == nil {
			h.renewed(t, row, stored)
			return nil
		}
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
		if err := h.reread(ctx); err != nil {
			return err
		}
	}
}

// reread looks why a renewal conflicts: an earlier one landed whose outcome was not
// known, or another host wants an actor, or the host was given up.
func (h *host) reread(ctx context.Context) error {
	stored, err := h.hosting.store.eng.Get(ctx, h.key, nil)
	if errors.Is(err, ErrNotFound) {
		h.lose()
		return errHostLost
	}
	if err != nil {
		return err
	}
	row, err := layout.ParseHost(h.id, stored)
	if err != nil {
		return err
	}
	// A renewal without them says that they answer nothing any more.
	for _, id := range row.Wanted {
		if a := h.handle(ID(id)); a != nil {
			a.lost(errWanted)
		}
	}
	row.Count = max(row.Count, h.row.Count)
	h.row, h.stored = row, stored
	return nil
}

// lose fences every handle of the host.
func (h *host) lose() {
	h.term.Store(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = true
	clear(h.unclaimed)
	for _, a := range h.handles {
		a.lost(errHostLost)
	}
}

func (h *host) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// enter adds a handle, before it claims its actor; false when the host is lost.
func (h *host) enter(a *Actor) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lost {
		h.handles[a.id] = a
	}
	return !h.lost
}

func (h *host) handle(id ID) *Actor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handles[id]
}

// close gives the lease up. No handle of the Store is open any more.
func (g *hosting) close() error {
	g.registering <- struct{}{}
	defer func() { <-g.registering }()
	h := g.now.Swap(nil)
	if h == nil {
		return nil
	}
	h.stop()
	<-h.done
	h.term.Store(nil)
	// After a TTL it is over by itself. A short one isn't a reason to leave it behind on a
	// server that is slow.
	ctx, cancel := context.WithTimeout(context.Background(), max(g.opts.TTL, time.Second))
	defer cancel()
	for !h.isLost() {
		err := g.store.eng.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: h.key, Value: h.stored}},
			Ops:    []kv.Op{kv.Clear(h.key)},
		})
		if errors.Is(err, kv.ErrConflict) {
			err = h.reread(ctx)
		} else if err == nil {
			return nil
		}
		if err != nil && !h.isLost() {
			return fmt.Errorf("actorstore: end the lease of host %s: %w", h.id, err)
		}
	}
	return nil
}

// margin is what is kept from either end of a lease of the length ttl: clocks of
// different machines run at speeds that differ by far less.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }
