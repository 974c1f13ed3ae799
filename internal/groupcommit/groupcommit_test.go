package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
)

// all is what a leader takes of those that wait.
func all(*int) bool { return true }

// enter enters a line on a goroutine of its own, and leads, when its turn comes, as lead does.
func enter(t *testing.T, of *sync.WaitGroup, l *groupcommit.Line[int], n int, lead func(w *groupcommit.Waiter[int])) *groupcommit.Waiter[int] {
	w := &groupcommit.Waiter[int]{Value: n}
	of.Go(func() {
		leads, err := l.Enter(t.Context(), w)
		if err != nil {
			t.Error(err)
		}
		if leads {
			lead(w)
		}
	})
	synctest.Wait()
	return w
}

// TestLine: the first ones lead at once, the next ones wait, and a leader does the work of
// those that it takes.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := groupcommit.New[int](2)
		var callers sync.WaitGroup
		hold := make(chan struct{})
		var mu sync.Mutex
		var led []int
		leads := func(w *groupcommit.Waiter[int]) {
			mu.Lock()
			defer mu.Unlock()
			led = append(led, w.Value)
		}
		lead := func(w *groupcommit.Waiter[int]) {
			leads(w)
			<-hold
			w.Pass()
			w.Pass() // does nothing
		}
		enter(t, &callers, l, 1, lead)
		enter(t, &callers, l, 2, lead)
		var waiters []*groupcommit.Waiter[int]
		for n := range 6 {
			waiters = append(waiters, enter(t, &callers, l, n+3, func(w *groupcommit.Waiter[int]) {
				leads(w)
				for _, o := range l.Take(func(n *int) bool { return *n%2 == 1 }) {
					o.Value *= 10
					o.Done()
				}
				w.Pass()
			}))
		}
		if !slices.Equal(led, []int{1, 2}) {
			t.Fatalf("%v lead", led)
		}
		hold <- struct{}{}
		callers.Go(func() { hold <- struct{}{} })
		callers.Wait()
		// 3 takes 5 and 7, then 4, 6 and 8 lead one after the other.
		slices.Sort(led)
		if !slices.Equal(led, []int{1, 2, 3, 4, 6, 8}) {
			t.Errorf("%v have led", led)
		}
		for i, want := range []int{3, 4, 50, 6, 70, 8} {
			if waiters[i].Value != want {
				t.Errorf("the work of %d is %d, want %d", i+3, waiters[i].Value, want)
			}
		}
		// Two lead at a time still, and nothing is left.
		led = nil
		for n := range 3 {
			enter(t, &callers, l, n, lead)
		}
		if len(led) != 2 {
			t.Errorf("%v lead", led)
		}
		for range 3 {
			hold <- struct{}{}
		}
		callers.Wait()
		if taken := l.Take(all); len(taken) > 0 {
			t.Errorf("%d wait in an empty line", len(taken))
		}
	})
}

// TestLeave: a caller whose context ends leaves the line, unless a leader has taken it.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := groupcommit.New[int](1)
		first := &groupcommit.Waiter[int]{}
		if leads, err := l.Enter(t.Context(), first); !leads || err != nil {
			t.Fatal(leads, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		wait := func() {
			leads, err := l.Enter(ctx, &groupcommit.Waiter[int]{})
			if leads {
				err = errors.New("it leads")
			}
			errs <- err
		}
		go wait()
		synctest.Wait()
		taken := l.Take(all)
		go wait()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		synctest.Wait()
		if len(errs) > 0 {
			t.Error("a caller whose work a leader has taken left")
		}
		taken[0].Done()
		if err := <-errs; err != nil {
			t.Error(err)
		}
		if len(l.Take(all)) > 0 {
			t.Error("a caller that has left is in the line")
		}
	})
}
