package host

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv"
)

// A phase is where in its stay in memory an actor is.
type phase int

const (
	waking  phase = iota // its parts are being opened
	awake                // it takes turns
	leaving              // it goes to sleep, or was lost
	gone                 // it is not in Host.lives any more
)

// errAgain says that a turn didn't run, because the actor left memory before its
// turn came: the caller wakes the actor again.
var errAgain = errors.New("host: actor has left memory")

// enter returns the actor awake, and counts the caller among its users until leave.
// b is what an actor that doesn't exist yet is created with; nil means that it isn't.
// by says which kind of caller it is.
func (h *Host) enter(ctx context.Context, a Address, b *birth, by caller) (*life, error) {
	kind := h.types[a.Type]
	name, err := a.check()
	if err != nil {
		return nil, err
	}
	if kind == nil {
		return nil, ErrNoType
	}
	if kind.MustCreate && b != nil && !b.asked {
		b = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.closed {
			return nil, ErrClosed
		}
		l := h.lives[name]
		if l == nil {
			if err := h.room(ctx, name, by == byCourier); err != nil {
				return nil, err
			}
			if l = h.lives[name]; l == nil { // no other caller was quicker
				l = newLife(h, kind, a, name, b)
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
			h.use(l)
			return l, nil
		case waking:
			// A user from now on: else it might be put to sleep for another actor before its
			// turn comes, again and again.
			h.use(l)
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
			if b == nil || made || !errors.Is(l.failure, ErrNoActor) {
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

// A caller is a kind of callers that want an actor awake.
type caller uint8

const (
	byUser caller = iota
	byCourier
	byAlarm // for what was due when the actor was as it was before a restore, if it was restored meanwhile
)

// errRestored says that an actor was restored, and isn't woken for what was due before.
var errRestored = errors.New("host: actor was restored")

// nested returns ErrNested if ctx, or the calling goroutine, belongs to a turn of l that
// runs, or to one for which such a turn waits: what waited there for a turn of l would wait
// for itself.
//
// +checklocks:l.host.mu
func nested(ctx context.Context, l *life) error {
	for c := turnOf(ctx); c != nil; c = c.caller {
		if c.life == l && c.runs() {
			return fmt.Errorf("host: call of %s, which waits for the caller: %w", l.name, greenroom.ErrNested)
		}
	}
	if l.door != nil && transactions.Nested(ctx, l.door) != nil {
		return fmt.Errorf("host: call of %s in a turn of its own: %w", l.name, greenroom.ErrNested)
	}
	return nil
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

// room returns when there may be one more life, or when there is one of that name. For
// each waiter an actor is put to sleep, as soon as one is idle. See waiters for their
// order; a later caller doesn't take the place that was made.
//
// +checklocks:h.mu
func (h *Host) room(ctx context.Context, name string, courier bool) error {
	if len(h.lives)+h.granted < h.opts.MaxAwake && h.waiters.len() == 0 {
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

// add has ch, which next returns, wait. remove ends that before.
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

// evict puts idle actors to sleep until as many are leaving as there are waiters.
//
// +checklocks:h.mu
func (h *Host) evict() {
	for h.leaving < h.waiters.len() && h.idle.Len() > 0 {
		l := h.idle.Front().Value.(*life)
		h.meter.Count(metricEvicted, 1)
		l.rest()
	}
}

// grant tells waiters that there is room, if there is.
//
// +checklocks:h.mu
func (h *Host) grant() {
	for h.waiters.len() > 0 && len(h.lives)+h.granted < h.opts.MaxAwake {
		h.granted++
		close(h.waiters.next())
	}
}

// use counts a user of an actor that is awake.
//
// +checklocks:h.mu
func (h *Host) use(l *life) {
	l.users++
	if l.place != nil {
		h.idle.Remove(l.place)
		l.place = nil
	}
}

// enterAwake counts a user of l if it is awake, and says whether it is.
func (l *life) enterAwake() bool {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	if l.phase != awake {
		return false
	}
	l.host.use(l)
	return true
}

// leave ends what enter began.
func (l *life) leave() {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	l.users--
	l.settle()
}

// hold adds n to what keeps the actor awake beside its users, until the same is taken
// off: connections that don't hibernate.
func (l *life) hold(n int) {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	l.held += n
	l.settle()
}

// settle looks whether l has anything to do. It counts as idle from now on if it hasn't,
// and goes to sleep at once if the host is being closed.
//
// +checklocks:l.host.mu
func (l *life) settle() {
	h := l.host
	if l.users > 0 {
		return
	}
	switch {
	case l.phase == leaving:
		l.unused()
	case l.phase != awake:
	case h.closed:
		l.rest()
	case l.overdue():
		l.nap(soon / 10)
	case l.held > 0:
		if l.place != nil {
			h.idle.Remove(l.place)
			l.place = nil
		}
		l.sleepers.hold()
	case l.sleepers.callers > 0:
		l.rest()
	case l.place == nil:
		l.place = h.idle.PushBack(l)
		l.since = h.clock()
		if h.evict(); l.phase == awake {
			l.nap(max(h.opts.IdleTimeout, 0))
		}
	}
}

// overdue says that something is due that the actor hasn't got round to. What it doesn't
// get round to for long can't be done, and is not to keep it awake.
//
// +checklocks:l.host.mu
func (l *life) overdue() bool {
	next, now := l.clock.Next(), l.host.clock()
	if next.IsZero() || next.After(now) {
		return false
	}
	if next.Before(l.began) {
		next = l.began
	}
	return now.Sub(next) < patience
}

// patience is how long an actor is kept awake for something that is due.
const patience = 10 * time.Second

// nap looks at l again after d.
//
// +checklocks:l.host.mu
func (l *life) nap(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.drowse)
		return
	}
	l.timer.Reset(d)
}

// soon is how near a time must be for an actor to stay awake until then: to wake it again
// would cost more.
const soon = time.Second

// drowse puts l to sleep if it has been idle for long enough.
func (l *life) drowse() {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.phase != awake || l.users > 0 {
		return
	}
	if l.place == nil {
		l.settle()
		return
	}
	next := l.clock.Next()
	left := l.since.Add(max(h.opts.IdleTimeout, 0)).Sub(h.clock())
	if !next.IsZero() {
		if until := next.Sub(h.clock()); until > 0 && until <= soon || l.overdue() {
			left = max(left, until, soon/10)
		}
	}
	if left > 0 {
		l.nap(left)
		return
	}
	l.rest()
}

// rest begins to put l to sleep, if it is awake and has no users.
//
// +checklocks:l.host.mu
func (l *life) rest() {
	if l.phase != awake || l.users > 0 {
		return
	}
	l.depart()
	close(l.sleep)
}

// depart ends the time in which l takes turns.
//
// +checklocks:l.host.mu
func (l *life) depart() {
	l.phase = leaving
	l.host.leaving++
	if l.place != nil {
		l.host.idle.Remove(l.place)
		l.place = nil
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.users == 0 {
		l.unused()
	}
}

// unused tells that l has its last user behind it.
//
// +checklocks:l.host.mu
func (l *life) unused() {
	if !l.alone {
		l.alone = true
		close(l.empty)
	}
}

// forget takes l out of the host: the next caller wakes the actor anew.
func (h *Host) forget(l *life) {
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
