package queue

import "slices"

// A listener is a call that waits for a message to become visible.
type listener struct {
	names []string      // nil: any
	woken chan struct{} // holds one token
}

// listeners are the calls that wait.
type listeners map[*listener]struct{}

// wake wakes all that wait for a name: the first to look gets the message, and the
// others go on waiting.
func (all listeners) wake(name string) {
	for l := range all {
		if len(l.names) == 0 || slices.Contains(l.names, name) {
			l.wake()
		}
	}
}

// wakeAll wakes all, whatever they wait for.
func (all listeners) wakeAll() {
	for l := range all {
		l.wake()
	}
}

func (l *listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it is awake, and hasn't looked yet
	}
}
