package queue

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// full uses up all that the actor may store.
func (r *rig) full() { r.fullBut(0) }

func (r *rig) fullBut(left int64) {
	r.t.Helper()
	key := []byte{actorstore.NamespaceUser}
	must(r.t, r.actor.Delete(ctx, key))
	room := r.actor.Limits().Storage - r.actor.Used()
	must(r.t, r.actor.Put(ctx, key, make([]byte, room-left-int64(len(key))-batch.WrapperBytes)))
	if r.actor.Used() != r.actor.Limits().Storage-left {
		r.t.Fatalf("%d bytes are used", r.actor.Used())
	}
}

// TestFullActor: an actor that stores all that it may takes no more messages, and its
// messages can be received, given back and completed, one by one or many: what replaces
// a value is charged the difference, and a lease that has no room is in memory alone.
func TestFullActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{Visibility: time.Second}, batch.Limits{Storage: 2000})
		for range 12 {
			r.enqueue("a", "x")
		}
		stored := r.one(ReceiveOptions{Visibility: time.Hour})
		r.full()
		_, err := r.q.Enqueue(ctx, Send{Name: "a"})
		wantErr(t, "one more", err, actorstore.ErrQuota)
		must(t, r.q.Extend(ctx, stored.Receipt(), 2*time.Hour))

		msgs := r.try(ReceiveOptions{Count: 3})
		wantIDs(t, "received", ids(msgs), 2, 3, 4)
		if m := msgs[0]; r.record(m.ID).inFlight.set || m.Receipt().Nonce == 0 {
			t.Errorf("the lease of %s is stored", m.Receipt())
		}
		must(t, r.q.Extend(ctx, msgs[0].Receipt(), time.Minute))
		must(t, msgs[1].Nack(ctx, 0, nil))
		later(time.Second)
		again := r.try(ReceiveOptions{Count: 2})
		wantIDs(t, "given back, and over", ids(again), 3, 4)
		r.wantVoid("a lease that is over", msgs[2].Receipt())
		must(t, msgs[0].Complete(ctx, nil)) // which makes room for a lease
		if m := r.one(ReceiveOptions{}); !r.record(m.ID).inFlight.value || m.Receipt().Nonce != 0 {
			t.Errorf("the lease of %s isn't stored", m.Receipt())
		}
		must(t, stored.Complete(ctx, nil))
		for _, m := range again {
			must(t, m.Complete(ctx, nil))
		}
		r.verify("with room again")
		r.full()
		for r.q.Len() > 0 {
			msgs, err := r.q.Receive(ctx, nil)
			must(t, err)
			must(t, msgs[0].Complete(ctx, nil))
		}
		r.verify("in the end")
	})
}

// TestFullStaged: a lease that is left to memory by the commit has a receipt that knows.
func TestFullStaged(t *testing.T) {
	r := newRigWith(t, Options{}, batch.Limits{Storage: 1000})
	r.enqueue("a", "x")
	r.full()
	var b batch.Batch
	m := r.stageReceive(&b, ReceiveOptions{})[0]
	before := m.Receipt()
	must(t, r.actor.Commit(ctx, &b))
	must(t, r.q.Extend(ctx, before, time.Hour))
	if m.Receipt() != before {
		t.Errorf("the receipt is %s, before %s", m.Receipt(), before)
	}
	r.reopen() // ends the lease
	other := r.one(ReceiveOptions{})
	r.wantVoid("a receipt of before the restart", before, Receipt{ID: 1, Deliveries: 1})
	must(t, other.Complete(ctx, nil))
	r.verify("in the end")
}

// TestFullLate: what is staged when the batch is sealed has the room that is left by what is
// in the batch by then, and that stays as it is.
func TestFullLate(t *testing.T) {
	r := newRigWith(t, Options{}, batch.Limits{Storage: 1000})
	r.enqueue("a", "x")
	r.enqueue("a", "x")
	r.fullBut(leaseRoom)
	var b batch.Batch
	first := r.stageReceive(&b, ReceiveOptions{})[0]
	var second *Message
	b.Late(func(b *batch.Batch) error {
		second = r.stageReceive(b, ReceiveOptions{})[0]
		return nil
	})
	must(t, r.actor.Commit(ctx, &b))
	if a, b := r.record(1).inFlight.set, r.record(2).inFlight.set; !a || b {
		t.Errorf("the leases are stored: %v, %v", a, b)
	}
	if a, b := first.Receipt().Nonce, second.Receipt().Nonce; a == 0 || b == 0 {
		t.Errorf("receipts with %d and %d", a, b) // nothing says yet that the commit is durable
	}
	must(t, second.Complete(ctx, nil))
	if a := first.Receipt().Nonce; a != 0 {
		t.Errorf("a receipt with %d", a)
	}
	must(t, first.Complete(ctx, nil))
	r.verify("in the end")
}

// TestFullDeadLetter: what an actor that is full has no room to lay aside waits, and isn't
// received meanwhile. It goes when the queue makes room, or when others do and it is tried
// again.
func TestFullDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &tally{sums: map[string]int64{}}
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Second, Env: part.Env{Metrics: sink}}, batch.Limits{Storage: 2000})
		for range 4 {
			r.enqueue("a", "x")
		}
		last := r.enqueue("b.dlq", "y")
		r.full()
		waits, err := r.q.Expect(1)
		must(t, err)
		msgs := r.try(ReceiveOptions{Count: 4})
		must(t, msgs[0].Nack(ctx, time.Hour, nil))
		must(t, msgs[1].Nack(ctx, 0, nil))
		synctest.Wait() // an attempt to lay them aside has an id until it is over
		var b batch.Batch
		must(t, r.q.In(&b).Nack(ctx, msgs[2].Receipt(), 0, nil))
		must(t, r.actor.Commit(ctx, &b))
		want := func(what string, names ...NameStats) {
			t.Helper()
			synctest.Wait()
			got := r.q.Stats().Names
			for i := range got {
				got[i].Oldest, got[i].Bytes = time.Time{}, 0
			}
			if !slices.Equal(got, names) {
				t.Errorf("%s: stats %+v, want %+v", what, got, names)
			}
		}
		other := NameStats{Name: "b.dlq", Ready: 1}
		want("given back", NameStats{Name: "a", Dying: 3, Leased: 1}, other)
		later(time.Second)
		want("the last lease is over", NameStats{Name: "a", Dying: 4}, other)
		wantIDs(t, "of the name", ids(r.try(ReceiveOptions{Names: []string{"a"}})))
		if sink.sums["dead"] != 0 || sink.sums["returned"] != 3 || sink.sums["enqueued"] != 5 {
			t.Errorf("counted %v", sink.sums)
		}

		// Room for one, by another batch.
		must(t, r.actor.Delete(ctx, []byte{actorstore.NamespaceUser}))
		room := r.actor.Limits().Storage - r.actor.Used()
		must(t, r.actor.Put(ctx, []byte{actorstore.NamespaceUser}, make([]byte, room-12-1-batch.WrapperBytes)))
		later(maxBackoff)
		want("room for one", NameStats{Name: "a", Dying: 3, Dead: 1}, NameStats{Name: "a.dlq", Ready: 1}, other)
		_, err = waits.Wait(ctx)
		wantErr(t, "it became a dead letter", err, ErrNoAnswer)
		// The id that the batch reserved was shown to a caller; the others weren't.
		if rec := r.record(last + 2); rec.name != "a.dlq" || rec.deliveries.value != 1 {
			t.Errorf("the dead letter is %+v", rec)
		}

		// Room for all, by the queue, and at once.
		must(t, r.one(ReceiveOptions{Names: []string{"b.dlq"}}).Complete(ctx, nil))
		want("room for all", NameStats{Name: "a.dlq", Ready: 4})
		r.verify("in the end")
	})
}

// TestFullDeadLettersGone: what waits for room can be deleted, and after a restart it has
// been handed out as often as is stored.
func TestFullDeadLettersGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1}, batch.Limits{Storage: 1000})
		r.enqueue("a", "x")
		r.enqueue("a", "x")
		r.full()
		for _, m := range r.try(ReceiveOptions{Count: 2}) {
			must(t, m.Nack(ctx, 0, nil))
		}
		r.reopen()
		wantIDs(t, "after a restart", ids(r.try(ReceiveOptions{Count: 2})), 1, 2)
		later(time.Minute)
		synctest.Wait()
		if s := r.q.Stats(); s.Names[0].Dying != 2 || s.Next != 3 {
			t.Errorf("stats %+v", s)
		}
		removed, err := r.q.Delete(ctx, 2)
		must(t, err)
		wantIDs(t, "deleted", removed, 2)
		synctest.Wait()
		wantIDs(t, "the other one", ids(r.try(ReceiveOptions{Names: []string{"a.dlq"}})), 3)
		r.verify("in the end")
	})
}
