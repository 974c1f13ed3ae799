package actorstore

import (
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// wakeListeners are the functions that OnWake was given, of all Stores on one engine if they are in one process.
type wakeListeners struct {
	mu  sync.Mutex
	all []*wakeListener // replaced, never changed  +checklocks:mu
}

type wakeListener struct {
	fn      func(w Waking, lost error)
	mu      sync.RWMutex // held for reading while fn is called
	stopped bool         // +checklocks:mu
}

// wakesKey is where the listeners are in the map that users of an engine share.
type wakesKey struct{}

func listenersOf(eng kv.Engine) *wakeListeners {
	shared := kv.Shared(eng)
	if shared == nil {
		return new(wakeListeners)
	}
	l, _ := shared.LoadOrStore(wakesKey{}, new(wakeListeners))
	return l.(*wakeListeners)
}

// tell calls the functions for an actor whose handle is closed.
func (l *wakeListeners) tell(w Waking, lost error) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, o := range all {
		o.mu.RLock()
		if !o.stopped {
			o.fn(w, lost)
		}
		o.mu.RUnlock()
	}
}

// add calls fn from now on until stop returned.
func (l *wakeListeners) add(fn func(w Waking, lost error)) (stop func()) {
	added := &wakeListener{fn: fn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, added)
	return func() {
		l.mu.Lock()
		l.all = slices.DeleteFunc(slices.Clone(l.all), func(o *wakeListener) bool { return o == added })
		l.mu.Unlock()
		added.mu.Lock()
		defer added.mu.Unlock()
		added.stopped = true
	}
}
