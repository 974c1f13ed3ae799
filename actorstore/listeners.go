package actorstore

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
)

// A Change is what one commit has made of an actor.
type Change struct {
	ID   ID
	Name string // "" without one
	Seq  uint64 // the number of the commit, see Actor.Seq; 0 of an actor that was dropped
	// Attributes says that what the actor is found by has changed.
	Attributes bool
	// Dropped says that the actor is gone.
	Dropped bool
}

// A closing is a handle that was closed, of an actor that is to be woken as w says; lost is the failure that ended it, if one did.
type closing struct {
	w    Waking
	lost error
}

// told are the listeners of all Stores on one engine if they are in one process.
type told struct {
	closings listeners[closing] // OnWake
	changes  listeners[Change]  // OnChange
}

// toldKey is where the listeners are in the map that users of an engine share.
type toldKey struct{}

func toldOf(eng kv.Engine) *told {
	shared := kv.Shared(eng)
	if shared == nil {
		return new(told)
	}
	t, _ := shared.LoadOrStore(toldKey{}, new(told))
	return t.(*told)
}

// listeners are functions that are told of something. To tell none of something takes one atomic load.
type listeners[T any] struct {
	mu  sync.Mutex                     // held to replace all
	all atomic.Pointer[[]*listener[T]] // the slice is never changed; nil for none
}

type listener[T any] struct {
	fn      func(T)
	mu      sync.RWMutex // held for reading while fn is called
	stopped bool         // +checklocks:mu
}

// tell calls the functions.
func (l *listeners[T]) tell(what T) {
	all := l.all.Load()
	if all == nil {
		return
	}
	for _, o := range *all {
		o.mu.RLock()
		if !o.stopped {
			o.fn(what)
		}
		o.mu.RUnlock()
	}
}

// add calls fn from now on until stop returned.
func (l *listeners[T]) add(fn func(T)) (stop func()) {
	added := &listener[T]{fn: fn}
	l.replace(func(all []*listener[T]) []*listener[T] { return append(all, added) })
	return func() {
		l.replace(func(all []*listener[T]) []*listener[T] {
			return slices.DeleteFunc(all, func(o *listener[T]) bool { return o == added })
		})
		added.mu.Lock()
		defer added.mu.Unlock()
		added.stopped = true
	}
}

// replace puts what edit makes of a copy of all in its place.
func (l *listeners[T]) replace(edit func(all []*listener[T]) []*listener[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*listener[T]
	if old := l.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = edit(all); len(all) == 0 {
		l.all.Store(nil)
	} else {
		l.all.Store(&all)
	}
}
