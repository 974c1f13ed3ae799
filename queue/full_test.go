package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// full uses up all that the actor may store.
func (r *rig) full() {
	r.t.Helper()
	key := []byte{actorstore.NamespaceUser}
	must(r.t, r.actor.Delete(ctx, key))
	room := r.actor.Limits().Storage - r.actor.Used()
	must(r.t, r.actor.Put(ctx, key, make([]byte, room-int64(len(key))-batch.WrapperBytes)))
	if r.actor.Used() != r.actor.Limits().Storage {
		r.t.Fatalf("%d bytes are used", r.actor.Used())
	}
}

// TestFullActor: an actor that stores all that it may takes no more messages, and those
// that it has can be received, given back and completed, one by one or many: what replaces
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
		must(t, msgs[1].Nack(ctx, 0))
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
