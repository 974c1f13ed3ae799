package wasm

import (
	"container/list"
	"sync"
)

// A crowd are the instances of a module that are in memory. When there are more than there
// may be, those that are in no turn go, the one that has been so for longest first: it
// costs a turn of its actor the time to make another.
type crowd struct {
	mu   sync.Mutex
	idle list.List // of *instance, the longest first  +checklocks:mu
	busy int       // in turns  +checklocks:mu
}

// enter marks i as in a turn: it can't be thrown away.
func (w *crowd) enter(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy++
	if i.place != nil {
		w.idle.Remove(i.place)
		i.place = nil
	}
	w.thin(i.module.opts.Instances)
}

// leave ends what enter began.
func (w *crowd) leave(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if i.guest != nil {
		i.place = w.idle.PushBack(i)
		w.thin(i.module.opts.Instances)
	}
}

// remove forgets an instance that is in no turn.
func (w *crowd) remove(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.place != nil {
		w.idle.Remove(i.place)
		i.place = nil
	}
}

// thin throws idle instances away until there are no more than most.
//
// +checklocks:w.mu
func (w *crowd) thin(most int) {
	for w.busy+w.idle.Len() > most && w.idle.Len() > 0 {
		e := w.idle.Front()
		w.idle.Remove(e)
		i := e.Value.(*instance)
		i.place = nil
		i.drop()
	}
}
