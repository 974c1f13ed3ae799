// Package routes says at which host of a store an actor is wanted: at the one that is known to have it, and else at the one that rendezvous hashing names
// among the living hosts that run its type, so that all hosts name the same one, and only the actors of a host that comes or goes move.
package routes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A Store is what a Table needs of an actorstore.Store.
type Store interface {
	Hosts(ctx context.Context) iter.Seq2[actorstore.HostInfo, error]
	Offer(ctx context.Context, o *actorstore.Offer) error
	Self() actorstore.HostID
}

const (
	// listEvery is how old the list of hosts may be, and listAtOnce how old at the least if a host turns out to be gone.
	listEvery, listAtOnce = 3 * time.Second, 200 * time.Millisecond
	// learned is how long an actor is taken to be where it was: where another host has it, that one says so.
	learned = 10 * time.Second
	// downFor is how long a host that can't be reached gets no new actors.
	downFor = 5 * time.Second
	// maxLearned bounds the actors that are remembered: with more all are forgotten.
	maxLearned = 100_000
)

// A Table knows the hosts of a store, and where actors are. It is safe for concurrent use.
type Table struct {
	store Store
	here  bool // actors without a host are placed here
	now   func() time.Time

	listing sync.Mutex // held to list the hosts

	mu      sync.Mutex
	offer   actorstore.Offer                // +checklocks:mu
	hosts   []actorstore.HostInfo           // the living ones that take calls, by their addresses  +checklocks:mu
	listed  time.Time                       // when they were listed  +checklocks:mu
	stale   bool                            // one of them is gone, or another one is wanted  +checklocks:mu
	down    map[actorstore.HostID]time.Time // until when  +checklocks:mu
	learned map[string]route                // by the names of actors  +checklocks:mu
}

// A route is where an actor was, until a time.
type route struct {
	to    actorstore.HostInfo
	until time.Time
}

// New returns the table of a host, which tells others nothing before Offer. With here it takes the actors that it is asked for, unless they are at another host.
func New(s Store, here bool, now func() time.Time) *Table {
	return &Table{store: s, here: here, now: now, down: map[actorstore.HostID]time.Time{}, learned: map[string]route{}}
}

// Offer tells the other hosts what this one does for them. Errors are those of actorstore.Store.Offer.
func (t *Table) Offer(ctx context.Context, o *actorstore.Offer) error {
	t.mu.Lock()
	t.offer = *o
	t.mu.Unlock()
	return t.store.Offer(ctx, o)
}

// Where returns the host at which an actor is wanted, nil for this one, which it is too if no host runs its type. When the list of hosts can't be read it is the list of before.
func (t *Table) Where(ctx context.Context, typ, name string) *actorstore.HostInfo {
	t.list(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.learned[name]; ok {
		if t.now().Before(r.until) && !t.gone(r.to.ID) {
			return &r.to
		}
		delete(t.learned, name)
	}
	if t.here && t.offer.Runs(typ) != nil && !t.offer.Leaving {
		return nil
	}
	to, _ := t.place(typ, name, 0)
	return to
}

// Newer returns the host for an actor whose database is of a version that the host which was asked doesn't know; nil for this one. Without one that knows it ok is false.
func (t *Table) Newer(ctx context.Context, typ, name string, schema uint64) (to *actorstore.HostInfo, ok bool) {
	for range 2 {
		t.list(ctx)
		t.mu.Lock()
		if to, ok = t.place(typ, name, schema); !ok {
			t.stale = true // one may just have begun
		}
		t.mu.Unlock()
		if ok {
			break
		}
	}
	return to, ok
}

// Runs says whether a living host runs actors of a type.
func (t *Table) Runs(ctx context.Context, typ string) bool {
	t.list(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offer.Runs(typ) != nil || slices.ContainsFunc(t.hosts, func(h actorstore.HostInfo) bool { return h.Offer.Runs(typ) != nil })
}

// gone says whether a host is about to end: it may have an actor, and if so the next one that is asked says that.
//
// +checklocks:t.mu
func (t *Table) gone(id actorstore.HostID) bool {
	for i := range t.hosts {
		if t.hosts[i].ID == id {
			return t.hosts[i].Offer.Leaving
		}
	}
	return false
}

// Leaving says whether the table's own host takes no more actors.
func (t *Table) Leaving() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offer.Leaving
}

// Other returns the host for an actor that no host has, and whose database is of that version, 0 for any, if it is another one, without a look at the store; nil if it isn't.
func (t *Table) Other(typ, name string, schema uint64) *actorstore.HostInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	to, _ := t.place(typ, name, schema)
	return to
}

// Hosts returns the other living hosts that take requests.
func (t *Table) Hosts(ctx context.Context) []actorstore.HostInfo {
	t.list(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.hosts)
}

// Stale says that the list of hosts may lack one that is wanted: it is read again with the next question, unless that was done just now.
func (t *Table) Stale() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
}

// Refresh lists the hosts anew.
func (t *Table) Refresh(ctx context.Context) {
	t.mu.Lock()
	t.listed = time.Time{}
	t.mu.Unlock()
	t.list(ctx)
}

// place returns the host for an actor that no host has, among those that know the version of its database, 0 for any; nil for the table's own. Without such a host ok is false.
//
// +checklocks:t.mu
func (t *Table) place(typ, name string, schema uint64) (best *actorstore.HostInfo, ok bool) {
	knows := func(o *actorstore.Offer) bool {
		r := o.Runs(typ)
		return r != nil && uint64(r.Schema) >= schema && !o.Leaving
	}
	var most uint64
	if ok = knows(&t.offer); ok {
		most = score(t.offer.Address, name)
	}
	now := t.now()
	for i := range t.hosts {
		h := &t.hosts[i]
		if !knows(&h.Offer) || now.Before(t.down[h.ID]) {
			continue
		}
		if s := score(h.Offer.Address, name); s > most {
			best, most, ok = h, s, true
		}
	}
	if best != nil {
		at := *best
		best = &at
	}
	return best, ok
}

// score is a host's for an actor, as in Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998). A host is told by its address,
// which it keeps when it starts anew.
func score(address, name string) uint64 {
	sum := sha256.Sum256(append(append([]byte(address), 0), name...))
	return binary.BigEndian.Uint64(sum[:])
}

// Learn says that a host has an actor.
func (t *Table) Learn(name string, at *actorstore.HostInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.learned) >= maxLearned {
		clear(t.learned)
	}
	t.learned[name] = route{*at, t.now().Add(learned)}
}

// Forget says that an actor isn't where Learn has said.
func (t *Table) Forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.learned, name)
}

// Down says that a host can't be reached, or takes no calls.
func (t *Table) Down(id actorstore.HostID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down[id], t.stale = t.now().Add(downFor), true
}

// list lists the hosts, if that was done too long ago and no other caller does it.
func (t *Table) list(ctx context.Context) {
	now := t.now()
	t.mu.Lock()
	old := now.Sub(t.listed)
	due, first := old < 0 || old >= listEvery || t.stale && old >= listAtOnce, t.listed.IsZero()
	t.mu.Unlock()
	if !due {
		return
	}
	if first {
		t.listing.Lock()
	} else if !t.listing.TryLock() {
		return
	}
	defer t.listing.Unlock()
	self := t.store.Self()
	var hosts []actorstore.HostInfo
	there := false
	for h, err := range t.store.Hosts(ctx) {
		switch {
		case err != nil: // the list of before is better than none
			t.mu.Lock()
			defer t.mu.Unlock()
			t.listed, t.stale = now, false
			return
		case h.ID == self:
			there = true
		case h.Offer.Address != "" && now.Before(h.Expires.Add(h.TTL)):
			hosts = append(hosts, h)
		}
	}
	slices.SortFunc(hosts, func(a, b actorstore.HostInfo) int { return cmp.Compare(a.Offer.Address, b.Offer.Address) })
	t.mu.Lock()
	t.hosts, t.listed, t.stale = hosts, now, false
	offer := t.offer
	for id, until := range t.down {
		if !now.Before(until) {
			delete(t.down, id)
		}
	}
	t.mu.Unlock()
	if !there {
		_ = t.store.Offer(ctx, &offer) // its lease was lost; if that fails the next list does it
	}
}
