package queue

import (
	"testing"
	"time"
)

// TestBacklogUnseen receives from a long queue without a look at what stands behind: so many comparisons of messages are enough, with
// 100,000 visible ones and as many that wait, and messages of no name, for which code that goes through them would panic.
func TestBacklogUnseen(t *testing.T) {
	const n, most = 100_000, 100 // of comparisons for a message: about twice the logarithm for each order that the message leaves or enters
	r := newRigWith(t, Options{MaxMessages: -1, MemoryBytes: 64 << 20}, whole)
	compared := r.compares()
	fill(t, r, n)
	last := r.enqueue("last", nil)
	for range n / 1000 {
		sends := make([]Send, 1000)
		for i := range sends {
			sends[i].Name, sends[i].Delay = "later", 10*time.Hour
		}
		_, err := r.q.EnqueueAll(ctx, sends)
		must(t, err)
	}
	r.q.mu.Lock()
	r.q.index.byID[0] = &item{where: visible} // for code that goes by the keys
	r.q.mu.Unlock()

	few := func(what string, messages int, fn func()) {
		t.Helper()
		before := *compared
		if fn(); *compared-before > most*max(messages, 1) {
			t.Errorf("%s: %d comparisons for %d messages", what, *compared-before, messages)
		}
	}
	few("any", 3, func() { wantIDs(t, "of any name", ids(r.try(ReceiveOptions{Count: 3})), 1, 2, 3) })
	var msgs []*Message
	few("two names", 3, func() {
		msgs = r.try(ReceiveOptions{Count: 3, Names: []string{"name 4", "name 3"}})
		wantIDs(t, "of two names", ids(msgs), 4, 5, 11)
	})
	few("settled", 2, func() {
		must(t, msgs[0].Nack(ctx, 0, nil))
		must(t, msgs[1].Complete(ctx, nil))
	})
	few("once", 2, func() { wantIDs(t, "once", ids(r.try(ReceiveOptions{Count: 2, AtMostOnce: true})), 4, 6) })
	few("the last name", 1, func() {
		wantIDs(t, "of the last name", ids(r.try(ReceiveOptions{Names: []string{"last"}})), last)
	})
	few("no name", 0, func() {
		wantIDs(t, "of no name", ids(r.try(ReceiveOptions{Names: []string{"later", "nobody"}})))
	})
	if bad := r.q.Quarantined(); len(bad) > 0 {
		t.Errorf("%d decoys were taken for messages", len(bad))
	}
}

// compares returns how often messages are compared from now on, in the orders of all lines together.
func (r *rig) compares() *int {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	n := new(int)
	count := func(less func(a, b *item) bool) func(a, b *item) bool {
		return func(a, b *item) bool {
			*n++
			return less(a, b)
		}
	}
	x := &r.q.index
	x.all.first, x.timed.first, x.dying.first = count(byID), count(byTime), count(byID)
	return n
}
