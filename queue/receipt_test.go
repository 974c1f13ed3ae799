package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// wantVoid holds that a receipt is good for nothing, wherever the message is.
func (r *rig) wantVoid(what string, receipts ...Receipt) {
	r.t.Helper()
	for _, void := range receipts {
		wantErr(r.t, "complete by "+what, r.q.Complete(ctx, void, nil), ErrLeaseOver)
		wantErr(r.t, "nack by "+what, r.q.Nack(ctx, void, 0, nil), ErrLeaseOver)
		wantErr(r.t, "extend by "+what, r.q.Extend(ctx, void, time.Hour), ErrLeaseOver)
	}
}

// TestVoidReceipts: what was handed out by a batch that didn't land settles nothing, also
// when the next receiver's message has the same number of deliveries, in this queue or in
// the one that is opened after it, by whatever kind of lease.
func TestVoidReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.enqueue("a", "x")
		var void []Receipt
		for _, o := range []ReceiveOptions{{}, {AtMostOnce: true}, {Visibility: time.Hour}} {
			var b batch.Batch
			m := r.stageReceive(&b, o)[0]
			b.Abort(nil)
			void = append(void, m.Receipt())
		}
		var refused batch.Batch
		m := r.stageReceive(&refused, ReceiveOptions{})[0]
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		if r.actor.Commit(ctx, &refused) == nil {
			t.Error("the commit succeeded")
		}
		r.engine.Heal()
		void = append(void, m.Receipt())
		r.wantVoid("a void receipt before others", void...)

		other := r.one(ReceiveOptions{})
		if other.Deliveries != 1 {
			t.Errorf("delivery %d", other.Deliveries)
		}
		r.wantVoid("a void receipt", void...)
		r.reopen()
		r.wantVoid("a void receipt after a restart", void...)
		must(t, r.q.Nack(ctx, other.Receipt(), 0, nil))

		var b batch.Batch
		staged := r.stageReceive(&b, ReceiveOptions{})[0]
		for _, v := range append(void, Receipt{ID: 1, Deliveries: 2}) {
			wantErr(t, "a void receipt in a batch", r.q.In(&b).Complete(v, nil), ErrLeaseOver)
		}
		must(t, r.actor.Commit(ctx, &b))
		r.wantVoid("a void receipt of a lease that a batch made", void...)
		must(t, staged.Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestReceiptOfBatch: it is good in the batch and after it, as long as the queue is open;
// once the lease is known to be on stable storage there is one that is good for ever.
func TestReceiptOfBatch(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	r.enqueue("b", nil)
	var b batch.Batch
	m := r.stageReceive(&b, ReceiveOptions{})[0]
	first := m.Receipt()
	must(t, r.q.In(&b).Extend(ctx, first, time.Hour))
	must(t, r.actor.Apply(ctx, &b)) // no call waited for stable storage
	if m.Receipt() != first || first.Nonce == 0 {
		t.Errorf("the receipt is %s, before %s", m.Receipt(), first)
	}
	must(t, r.q.Extend(ctx, first, time.Hour)) // which is durable, and so is all before it
	lasting := m.Receipt()
	if lasting != (Receipt{ID: 1, Deliveries: 1}) {
		t.Errorf("the receipt is %s", lasting)
	}
	must(t, r.q.Extend(ctx, first, time.Hour))
	if got := r.one(ReceiveOptions{}).Receipt(); got != (Receipt{ID: 2, Deliveries: 1}) {
		t.Errorf("the receipt of a receive is %s", got)
	}
	r.reopen()
	r.wantVoid("a receipt with a nonce of before the restart", first)
	must(t, r.q.Complete(ctx, lasting, nil))
	r.verify("in the end")
}

// TestReceiptOfLostLease: a lease that was applied and lost in a crash leaves a receipt
// that isn't good for the same delivery to another caller.
func TestReceiptOfLostLease(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	value, err := r.actor.Get(ctx, appendMessageKey(layout, nil, 1), nil)
	must(t, err)
	var b batch.Batch
	m := r.stageReceive(&b, ReceiveOptions{})[0]
	must(t, r.actor.Apply(ctx, &b))
	must(t, r.q.Close())
	r.stored(appendMessageKey(layout, nil, 1), value) // as the crash leaves it
	r.open2()
	other := r.one(ReceiveOptions{})
	r.wantVoid("the receipt of a lease that is lost", m.Receipt())
	must(t, other.Complete(ctx, nil))
}

// TestPlainReceipts: a plain queue counts anew after a restart, and its receipts are none
// of those before.
func TestPlainReceipts(t *testing.T) {
	r := newRig(t, Options{Plain: true})
	r.enqueue("a", nil)
	before := r.one(ReceiveOptions{})
	r.reopen()
	m := r.one(ReceiveOptions{})
	if m.Deliveries != before.Deliveries || before.Receipt().Nonce == 0 {
		t.Errorf("receipts %s and %s", before.Receipt(), m.Receipt())
	}
	r.wantVoid("a receipt of before the restart", before.Receipt(), Receipt{ID: 1, Deliveries: 1})
	must(t, r.q.Extend(ctx, m.Receipt(), time.Hour))
	must(t, m.Complete(ctx, nil))
	r.verify("in the end")
}

// TestIDsShown: an id that a batch has shown to a caller isn't given to another one, though the
// batch didn't land; one that no caller was told of is given.
func TestIDsShown(t *testing.T) {
	r := newRig(t, Options{})
	var a, b batch.Batch
	mine := r.stageEnqueue(&a, Send{Name: "a", Body: "mine"})
	r.stageEnqueue(&b, Send{Name: "a"})
	a.Abort(nil)
	b.Abort(nil)
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	_, err := r.q.Enqueue(ctx, Send{Name: "a"})
	wantErr(t, "refused", err, batch.ErrTooLarge)
	r.engine.Heal()
	if id := r.enqueue("a", "another's"); id != 3 {
		t.Errorf("id %s", id)
	}
	wantErr(t, "delete", func() error { _, err := r.q.Expect(mine); return err }(), ErrNoAnswer)
	if removed, err := r.q.Delete(ctx, mine); len(removed) > 0 || err != nil {
		t.Errorf("the id of a batch that didn't land removed %v, %v", removed, err)
	}
	r.verify("in the end")

	// Ids above that landed are skipped for good.
	var low, high batch.Batch
	r.stageEnqueue(&low, Send{Name: "a"})
	never := r.stageEnqueue(&high, Send{Name: "a"})
	high.Abort(nil)
	must(t, r.actor.Commit(ctx, &low))
	r.reopen()
	if id := r.enqueue("a", nil); id <= never {
		t.Errorf("id %s was given to two", id)
	}
	r.verify("at last")
}

// TestDiscard removes what is quarantined by its key, with an id or without.
func TestDiscard(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	must(t, r.q.Close())
	odd := append([]byte(layout.Prefix(actorstore.NamespaceQueue)), 9)
	r.stored(odd, []byte("rubbish"))
	r.stored(appendMessageKey(layout, nil, 2), []byte("rubbish"))
	r.stored(appendMessageKey(layout, nil, 0), []byte("rubbish"))
	r.open2()
	if n := len(r.q.Quarantined()); n != 3 {
		t.Fatalf("%d are quarantined", n)
	}
	for _, key := range [][]byte{appendMessageKey(layout, nil, 1), {actorstore.NamespaceUser}, nil} {
		wantErr(t, "a key of something else", r.q.Discard(ctx, key), ErrGone)
	}
	var b batch.Batch
	must(t, r.q.In(&b).discard(odd))
	wantErr(t, "twice", r.q.In(&b).discard(odd), ErrGone)
	b.Abort(nil)
	must(t, r.q.Discard(ctx, odd))
	must(t, r.q.Discard(ctx, appendMessageKey(layout, nil, 2)))
	if removed, err := r.q.Delete(ctx, 0); len(removed) != 1 || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if n := len(r.q.Quarantined()); n != 0 || r.q.Len() != 1 {
		t.Errorf("%d are quarantined, %d messages", n, r.q.Len())
	}
	r.verify("in the end")
	r.reopen()
	if n := len(r.q.Quarantined()); n != 0 {
		t.Errorf("%d are quarantined after a restart", n)
	}
}
