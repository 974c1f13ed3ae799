//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A fleetLedger is what the clients of several hosts were told, by actor. Each call adds an amount to its actor, and is answered with the sum. It is safe for
// concurrent use.
type fleetLedger struct {
	mu       sync.Mutex
	moment   int64 // counts what happens
	actors   map[string]*fleetActor
	answered int      // calls
	again    int      // tries that did nothing
	faults   []string // what mustn't be
	waits    []fleetWait
}

// A fleetActor is what was said of one actor.
type fleetActor struct {
	answers  []fleetAnswer
	began    int64   // when the latest call that was answered began
	doubtful []int64 // the amounts of calls that may have been done
}

// A fleetAnswer is a call that was answered, between two moments.
type fleetAnswer struct{ amount, sum, began, ended int64 }

// A fleetWait waits until something is met.
type fleetWait struct {
	met  func() bool
	done chan struct{}
}

// do changes the ledger, and returns the moment.
func (l *fleetLedger) do(change func()) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moment++
	change()
	l.waits = slices.DeleteFunc(l.waits, func(w fleetWait) bool {
		met := w.met()
		if met {
			close(w.done)
		}
		return met
	})
	return l.moment
}

// now returns the moment.
func (l *fleetLedger) now() int64 { return l.do(func() {}) }

// answer notes that a call which began at a moment was answered.
func (l *fleetLedger) answer(actor string, began, amount, sum int64) {
	l.do(func() {
		l.answered++
		a := l.actor(actor)
		a.answers = append(a.answers, fleetAnswer{amount: amount, sum: sum, began: began, ended: l.moment})
		a.began = max(a.began, began)
	})
}

// doubt notes that a call may have been done.
func (l *fleetLedger) doubt(actor string, amount int64) {
	l.do(func() { l.actor(actor).doubtful = append(l.actor(actor).doubtful, amount) })
}

// refuse notes a try that did nothing.
func (l *fleetLedger) refuse() { l.do(func() { l.again++ }) }

// fault notes what mustn't be.
func (l *fleetLedger) fault(format string, args ...any) {
	l.do(func() { l.faults = append(l.faults, fmt.Sprintf(format, args...)) })
}

// actor returns what was said of an actor. mu is held.
func (l *fleetLedger) actor(name string) *fleetActor {
	if l.actors == nil {
		l.actors = map[string]*fleetActor{}
	}
	if l.actors[name] == nil {
		l.actors[name] = &fleetActor{}
	}
	return l.actors[name]
}

// await waits until the ledger meets something.
func (l *fleetLedger) await(ctx context.Context, met func() bool) error {
	w := fleetWait{met, make(chan struct{})}
	l.do(func() { l.waits = append(l.waits, w) })
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitMore waits for so many more answers.
func (l *fleetLedger) awaitMore(ctx context.Context, n int) error {
	l.mu.Lock()
	n += l.answered
	l.mu.Unlock()
	return l.await(ctx, func() bool { return l.answered >= n })
}

// check returns what is wrong with an actor whose sum is that in the end: each call has its own part of the sum, in an order in which they can have been done, and
// nothing else has one but calls in doubt.
func (l *fleetLedger) check(name string, sum int64) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.actor(name)
	say := func(format string, args ...any) {
		if len(wrong) < 5 {
			wrong = append(wrong, name+": "+fmt.Sprintf(format, args...))
		}
	}
	slices.SortFunc(a.answers, func(a, b fleetAnswer) int { return int(a.sum - b.sum) })
	var at, doubtful, gaps, began int64
	for _, c := range a.answers {
		if c.sum-c.amount < at {
			say("a call that added %d was told %d, but another one %d", c.amount, c.sum, at)
		}
		if c.ended < began {
			say("the call that made it %d had ended before one began that came before it", c.sum)
		}
		gaps += max(0, c.sum-c.amount-at)
		at, began = c.sum, max(began, c.began)
	}
	for _, d := range a.doubtful {
		doubtful += d
	}
	if at > sum {
		say("a call was told %d, and it is %d", at, sum)
	}
	if gaps += max(0, sum-at); gaps > doubtful {
		say("it is %d, of which %d was added by no call that was answered, and %d by calls in doubt at most", sum, gaps, doubtful)
	}
	return wrong
}

// TestFleetLedger: the checker finds what it is there to find.
func TestFleetLedger(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []fleetAnswer
		doubt   int64
		sum     int64
		want    string // a part of what is found; "" for nothing
	}{
		{"nothing", nil, 0, 0, ""},
		{"in order", []fleetAnswer{{2, 2, 1, 2}, {3, 5, 3, 4}}, 0, 5, ""},
		{"at once, and told in another order", []fleetAnswer{{3, 5, 1, 3}, {2, 2, 2, 4}}, 0, 5, ""},
		{"one in doubt was done", []fleetAnswer{{2, 2, 1, 2}, {3, 9, 3, 4}}, 4, 9, ""},
		{"one in doubt was not", []fleetAnswer{{2, 2, 1, 2}, {3, 5, 3, 4}}, 4, 5, ""},
		{"two have the same part", []fleetAnswer{{2, 2, 1, 2}, {2, 2, 3, 4}}, 0, 2, "another one 2"},
		{"parts overlap", []fleetAnswer{{2, 2, 1, 2}, {3, 4, 3, 4}}, 0, 4, "another one 2"},
		{"a gap", []fleetAnswer{{2, 2, 1, 2}, {3, 6, 3, 4}}, 0, 6, "1 was added by no call"},
		{"done twice", []fleetAnswer{{2, 4, 1, 2}}, 0, 4, "2 was added by no call"},
		{"done after the last answer", []fleetAnswer{{2, 2, 1, 2}}, 0, 3, "1 was added by no call"},
		{"more than what is in doubt", []fleetAnswer{{2, 2, 1, 2}}, 3, 6, "and 3 by calls in doubt"},
		{"forgotten", []fleetAnswer{{2, 2, 1, 2}}, 0, 0, "was told 2, and it is 0"},
		{"another order than that of the calls", []fleetAnswer{{2, 5, 1, 2}, {3, 3, 3, 4}}, 0, 5, "had ended before one began"},
	} {
		l := &fleetLedger{}
		l.actor("a").answers = c.answers
		if c.doubt > 0 {
			l.doubt("a", c.doubt)
		}
		got := strings.Join(l.check("a", c.sum), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
