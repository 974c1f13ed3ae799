// Package groupcommit lets callers share work: a few of them lead at a time, each from the moment
// its turn comes, and a leader does the work of those that wait beside its own. So there isn't
// a goroutine to stop, and a caller that finds the line empty waits for nothing.
package groupcommit

import (
	"context"
	"slices"
	"sync"
)

// A Line is where callers wait. It is safe for concurrent use; it must not be copied.
type Line[T any] struct {
	most int

	mu      sync.Mutex
	leading int          // how many lead; waiting is empty while that is less than most  +checklocks:mu
	waiting []*Waiter[T] // in the order in which they came  +checklocks:mu
}

// A Waiter is one call of one caller.
type Waiter[T any] struct {
	// Value is the call's work and, for a leader, its result. It is the caller's but from
	// the time at which a leader takes it until that calls Done.
	Value T

	line  *Line[T]
	leads chan bool // made for those that have to wait
	led   bool      // it leads still  +checklocks:line.mu
}

// New returns a line in which most callers lead at a time, at least one.
func New[T any](most int) *Line[T] { return &Line[T]{most: max(most, 1)} }

// Enter returns true if w leads: at once if fewer than the most do, or when its turn comes;
// Pass must follow. It returns false when a leader has done w's work. If ctx ends first the
// error is ctx's, and no leader has taken w.
func (l *Line[T]) Enter(ctx context.Context, w *Waiter[T]) (leads bool, err error) {
	w.line = l
	l.mu.Lock()
	if l.leading < l.most {
		l.leading++
		w.led = true
		l.mu.Unlock()
		return true, nil
	}
	w.leads = make(chan bool, 1)
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case leads = <-w.leads:
	case <-ctx.Done():
		if l.leave(w) {
			return false, ctx.Err()
		}
		leads = <-w.leads // a leader has taken it, or it is its turn
	}
	return leads, nil
}

// leave takes w out of the line, and returns false if it isn't there any more.
func (l *Line[T]) leave(w *Waiter[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// Take takes those that wait and that accept returns true for, in the order in which they
// came, which is also that of the result. The caller leads, and must call Done for each.
// accept is called with the line locked.
func (l *Line[T]) Take(accept func(v *T) bool) []*Waiter[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []*Waiter[T]
	l.waiting = slices.DeleteFunc(l.waiting, func(w *Waiter[T]) bool {
		ok := accept(&w.Value)
		if ok {
			taken = append(taken, w)
		}
		return ok
	})
	return taken
}

// Done ends the wait of w, which a leader has taken.
func (w *Waiter[T]) Done() { w.leads <- false }

// Pass ends the lead of w and begins that of the caller that has waited longest. Its second
// call does nothing.
func (w *Waiter[T]) Pass() {
	l := w.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.led {
		return
	}
	w.led = false
	if len(l.waiting) == 0 {
		l.leading--
		return
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	next.led = true
	next.leads <- true
}
