package queue

import (
	"testing"
	"time"
)

// TestBacklogUnseen receives from a long queue without a look at what stands behind. Among
// that are decoys: code that compares them takes one for the message that is next or due, and
// code that asks one for its name panics. So a receive on many looks at as few as on one.
func TestBacklogUnseen(t *testing.T) {
	const n = 100_000
	r := newRigWith(t, Options{MaxMessages: -1, MemoryBytes: 64 << 20}, whole)
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
	r.decoys(n)

	wantIDs(t, "of any name", ids(r.try(ReceiveOptions{Count: 3})), 1, 2, 3)
	msgs := r.try(ReceiveOptions{Count: 3, Names: []string{"name 4", "name 3"}})
	wantIDs(t, "of two names", ids(msgs), 4, 5, 11)
	must(t, msgs[0].Nack(ctx, 0, nil))
	must(t, msgs[1].Complete(ctx, nil))
	wantIDs(t, "once", ids(r.try(ReceiveOptions{Count: 2, AtMostOnce: true})), 4, 6)
	wantIDs(t, "of the last name", ids(r.try(ReceiveOptions{Names: []string{"last"}})), last)
	wantIDs(t, "of no name", ids(r.try(ReceiveOptions{Names: []string{"later", "nobody"}})))
	if bad := r.q.Quarantined(); len(bad) > 0 {
		t.Errorf("%d decoys were taken for messages", len(bad))
	}
}

// decoys puts decoys where n messages stand, in every order: each lower than any message,
// visible, due, and of no name.
func (r *rig) decoys(n int) {
	r.t.Helper()
	q := r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	x, decoy := &q.index, func() *item { return &item{where: visible} }
	x.byID[0] = decoy() // for code that goes by the keys
	for i := n / 2; i < n/2+100; i++ {
		it := x.all.tail[i]
		ready := &it.line.ready
		x.byID[it.id], x.all.tail[i], ready.tail[it.seats[seatLine]-ready.first] = decoy(), decoy(), decoy()
	}
	// In the heap it is a leaf that isn't beside the way of any that comes or goes here.
	leaf := n * 3 / 5
	if 2*leaf+1 < len(x.timed.items) {
		r.t.Fatalf("%d is no leaf among %d", leaf, len(x.timed.items))
	}
	x.timed.items[leaf] = decoy()
	x.timed.items[leaf].state = delayed
}
