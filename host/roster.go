package host

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// A roster is what a host has in memory: its actors, those that are idle in the order in which they became so, and the callers
// that wait for room.
type roster struct {
	mu      sync.Mutex
	closed  bool             // +checklocks:mu
	lives   map[string]*life // by the text of the address  +checklocks:mu
	idle    *list.List       // of *stay that are awake and have nothing to do, the longest first  +checklocks:mu
	leaving int              // of lives, those on their way to sleep  +checklocks:mu
	waiters waiters          // +checklocks:mu
	granted int              // waiters that were told to come, and have not yet  +checklocks:mu
	changed chan struct{}    // closed when a life has gone, for Close; nil unless it waits  +checklocks:mu

	crowded chan struct{} // full while a coordinator waits for room

	most  int           // of lives
	rest  time.Duration // after which an actor without work sleeps; negative: at once
	clock func() time.Time
	meter metrics.Meter
}

// closing says that Close was called.
func (h *roster) closing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// life returns the stay in memory of the actor of that name, nil while it sleeps.
func (h *roster) life(name string) *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lives[name]
}

// all returns the actors that are in memory.
func (h *roster) all() []*life {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.lives))
}

// roomy says that there may be one more life now.
//
// +checklocks:h.mu
func (h *roster) roomy() bool { return len(h.lives)+h.granted < h.most && h.waiters.len() == 0 }

// room returns when there may be one more life, or when there is one of that name. For
// each waiter an actor is put to sleep, as soon as one is idle. See waiters for their
// order; a later caller doesn't take the place that was made.
//
// +checklocks:h.mu
func (h *roster) room(ctx context.Context, name string, courier bool) error {
	if h.roomy() {
		return nil
	}
	ch := make(chan struct{})
	remove := h.waiters.add(ch, courier)
	h.evict()
	h.meter.Count(metricCrowded, 1)
	h.mu.Unlock()
	var err error
	select {
	case <-ch:
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.mu.Lock()
	select {
	case <-ch: // granted, and perhaps too late
		h.granted--
	default:
		remove()
	}
	switch {
	case err == nil && h.closed:
		err = ErrClosed
	case err == nil && h.lives[name] == nil:
		return nil // the place is taken before the lock is let go
	}
	h.grant()
	return err
}

// evict puts idle actors to sleep until as many are leaving as there are waiters.
//
// +checklocks:h.mu
func (h *roster) evict() {
	for h.leaving < h.waiters.len() && h.idle.Len() > 0 {
		l := h.idle.Front().Value.(*stay)
		h.meter.Count(metricEvicted, 1)
		l.rest()
	}
}

// grant tells waiters that there is room, if there is.
//
// +checklocks:h.mu
func (h *roster) grant() {
	for h.waiters.len() > 0 && len(h.lives)+h.granted < h.most {
		h.granted++
		close(h.waiters.next())
	}
}

// use counts a user of an actor that is awake.
//
// +checklocks:h.mu
func (h *roster) use(l *stay) {
	l.users++
	if l.place != nil {
		h.idle.Remove(l.place)
		l.place = nil
	}
}

// forget takes l out of the host: the next caller wakes the actor anew.
func (h *roster) forget(l *stay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.phase == leaving {
		h.leaving--
	}
	l.phase = gone
	delete(h.lives, l.name)
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
	h.grant()
}

// Waiters wait until there is room to wake an actor: clients (calls, sockets,
// alarms) and couriers, each in the order of coming. Clients come first, but for one
// courier behind every courierShare-1 of them.
type waiters struct {
	clients, couriers list.List // of chan struct{}
	passed            int       // clients since the last courier
}

// courierShare is the part of the room, one in so many, that couriers get where clients
// never cease to come.
const courierShare = 16

// add appends ch, which next returns in its turn. remove takes it out before that.
func (w *waiters) add(ch chan struct{}, courier bool) (remove func()) {
	line := &w.clients
	if courier {
		line = &w.couriers
	}
	e := line.PushBack(ch)
	return func() { line.Remove(e) }
}

func (w *waiters) len() int { return w.clients.Len() + w.couriers.Len() }

// next takes the first of those that wait, of which there must be one.
func (w *waiters) next() chan struct{} {
	line := &w.clients
	w.passed++
	if line.Len() == 0 || w.couriers.Len() > 0 && w.passed >= courierShare {
		line, w.passed = &w.couriers, 0
	}
	return line.Remove(line.Front()).(chan struct{})
}

// await waits without the lock.
//
// +checklocks:mu
func await(ctx context.Context, mu *sync.Mutex, ch <-chan struct{}) error {
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
