package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestReceiveOwn receives what the same batch has enqueued: behind what is stored, in the
// order of ids, by name, no more than asked for, and no other batch sees any of it.
func TestReceiveOwn(t *testing.T) {
	r := newRig(t, Options{})
	var first, b batch.Batch
	r.stageEnqueue(&b, Send{Name: "a", Body: "x"})        // 1
	r.stageEnqueue(&b, Send{Name: "b"})                   // 2
	r.stageEnqueue(&b, Send{Name: "a", Delay: time.Hour}) // 3
	r.stageEnqueue(&first, Send{Name: "a"})               // 4, which lands first
	must(t, r.actor.Commit(ctx, &first))
	r.stageEnqueue(&b, Send{Name: "a"}) // 5
	got := r.stageReceive(&b, ReceiveOptions{Names: []string{"a"}, Count: 2})
	wantIDs(t, "received", ids(got), 4, 1)
	if m := got[1]; text(t, m.Body) != "x" || m.Name != "a" || m.Deliveries != 1 || m.Receipt().Nonce == 0 {
		t.Errorf("received %+v", m)
	}
	var other batch.Batch
	wantIDs(t, "in another batch", ids(r.stageReceive(&other, ReceiveOptions{Count: 9})))
	other.Abort(nil)
	wantIDs(t, "outside", ids(r.try(ReceiveOptions{Count: 9})))
	wantIDs(t, "the rest", ids(r.stageReceive(&b, ReceiveOptions{Count: 9})), 2, 5)
	wantIDs(t, "more", ids(r.stageReceive(&b, ReceiveOptions{Count: 9})))
	if r.q.Len() != 1 {
		t.Errorf("%d messages", r.q.Len())
	}
	must(t, r.actor.Commit(ctx, &b))
	r.verify("landed")
	if s := r.q.Stats().Names; s[0].Leased != 3 || s[0].Delayed != 1 || s[1].Leased != 1 {
		t.Errorf("stats %+v", s)
	}
	must(t, got[1].Complete(ctx, nil))
}

// TestSettleOwn: whatever a batch does to a message that it enqueues is one write of it, or
// none if it removes it, whose id is used up all the same.
func TestSettleOwn(t *testing.T) {
	for _, plain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{MaxReceive: 1, Plain: plain})
			var b batch.Batch
			in := r.q.In(&b)
			for range 8 {
				r.stageEnqueue(&b, Send{Name: "a", Key: "k"})
				r.stageEnqueue(&b, Send{Name: "a"})
			}
			wantIDs(t, "at most once", ids(r.stageReceive(&b, ReceiveOptions{AtMostOnce: true})), 1)
			msgs := r.stageReceive(&b, ReceiveOptions{Count: 5})
			wantIDs(t, "received", ids(msgs), 2, 3, 4, 5, 6)
			must(t, in.Complete(msgs[0].Receipt(), nil))
			wantErr(t, "twice", in.Complete(msgs[0].Receipt(), nil), ErrGone)
			must(t, in.Extend(ctx, msgs[1].Receipt(), time.Hour))
			must(t, in.Nack(ctx, msgs[2].Receipt(), 0, nil)) // a dead letter, with the id 10
			must(t, in.Delete(7))
			must(t, in.Delete(msgs[3].ID))
			wantErr(t, "deleted", in.Delete(msgs[3].ID), ErrGone)
			wantErr(t, "a dead letter", in.Delete(10), ErrGone)
			var other batch.Batch
			wantErr(t, "another batch's", r.q.In(&other).Delete(8), ErrGone)
			other.Abort(nil)
			wantIDs(t, "dead letters", ids(r.stageReceive(&b, ReceiveOptions{Names: []string{"a.dlq"}})))
			r.wantCost("all of it", 1, 0, func() { must(t, r.actor.Commit(ctx, &b)) })
			if n := b.Len(); n != 6 {
				t.Errorf("%d writes, want the metadata, the dead letter, and the messages 3, 6, 8 and 9", n)
			}
			if r.verify("landed"); r.q.Len() != 5 {
				t.Errorf("%d messages", r.q.Len())
			}
			if plain == r.record(6).inFlight.value {
				t.Error("whether the lease is stored is wrong")
			}
			r.try(ReceiveOptions{Count: 9})
			must(t, r.q.Complete(ctx, msgs[1].Receipt(), nil))
			must(t, msgs[4].Complete(ctx, nil))
			if id := r.enqueue("a", nil); id != 11 {
				t.Errorf("the next id is %s", id)
			}
			if id := r.enqueueKey("a", "k"); id != 1 {
				t.Errorf("the key of a message that is done stands for %s", id)
			}
			r.reopen()
			if id := r.enqueueKey("a", "k"); id != 1 {
				t.Errorf("after a restart, the key stands for %s", id)
			}
			r.verify("in the end")
		})
	}
}

func (r *rig) enqueueKey(name, key string) ID {
	r.t.Helper()
	id, err := r.q.Enqueue(ctx, Send{Name: name, Key: key})
	must(r.t, err)
	return id
}

// TestOwnFails: what a batch enqueued and received is nothing when it doesn't land.
func TestOwnFails(t *testing.T) {
	for what, fail := range map[string]func(r *rig, b *batch.Batch) error{
		"given up": func(r *rig, b *batch.Batch) error { b.Abort(nil); return batch.ErrAborted },
		"refused": func(r *rig, b *batch.Batch) error {
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
			defer r.engine.Heal()
			err := r.actor.Commit(ctx, b)
			wantErr(r.t, "commit", err, batch.ErrTooLarge)
			return err
		},
	} {
		r := newRig(t, Options{})
		stored := r.enqueue("a", nil)
		var b batch.Batch
		id := r.stageEnqueue(&b, Send{Name: "a"})
		answer, err := r.q.Expect(id)
		must(t, err)
		msgs := r.stageReceive(&b, ReceiveOptions{Count: 2})
		wantIDs(t, what, ids(msgs), stored, id)
		must(t, r.q.In(&b).Complete(msgs[0].Receipt(), nil))
		must(t, r.q.In(&b).Complete(msgs[1].Receipt(), nil))
		reason := fail(r, &b)
		_, err = answer.Wait(ctx)
		wantErr(t, what, err, ErrNoAnswer)
		wantErr(t, what, err, reason)
		wantErr(t, what, msgs[1].Complete(ctx, nil), ErrGone)
		r.verify(what)
		wantIDs(t, what, ids(r.try(ReceiveOptions{Count: 9})), stored)
	}
}

// TestOwnAnswer: a caller that expects a message hears of its completion by the batch that
// enqueues it, when that is on stable storage.
func TestOwnAnswer(t *testing.T) {
	r := newRig(t, Options{})
	for _, how := range []string{"completed", "deleted", "at most once"} {
		var b batch.Batch
		id := r.stageEnqueue(&b, Send{Name: "a"})
		answer, err := r.q.Expect(id)
		must(t, err)
		m := r.stageReceive(&b, ReceiveOptions{AtMostOnce: how == "at most once"})[0]
		switch how {
		case "completed":
			must(t, r.q.In(&b).Complete(m.Receipt(), "yes"))
		case "deleted":
			must(t, r.q.In(&b).Delete(id))
		}
		must(t, r.actor.Apply(ctx, &b))
		response, err := answer.Wait(ctx)
		switch {
		case how != "completed":
			wantErr(t, how, err, ErrNoAnswer)
		case err != nil || text(t, response) != "yes":
			t.Errorf("%s: answered %x, %v", how, response, err)
		}
		r.verify(how)
	}
	if n := r.q.Len(); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// TestOwnLate settles by a late participant what is in the batch already: a message that
// is completed then leaves nothing behind, also in a batch that is refused once.
func TestOwnLate(t *testing.T) {
	for _, refused := range []bool{false, true} {
		r := newRig(t, Options{})
		b, spare := new(batch.Batch), new(batch.Batch)
		for range 3 {
			r.stageEnqueue(b, Send{Name: "a"})
		}
		if refused {
			b.Mark(spare)
		}
		b.Late(func(b *batch.Batch) error {
			in := r.q.In(b)
			msgs, err := in.Receive(ctx, &ReceiveOptions{Count: 2})
			wantIDs(t, "late", ids(msgs), 1, 2)
			return errors.Join(err, in.Complete(msgs[0].Receipt(), nil))
		})
		if refused {
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
			wantErr(t, "the first", r.actor.Commit(ctx, b), batch.ErrTooLarge)
			r.engine.Heal()
		}
		must(t, r.actor.Commit(ctx, b))
		if n := b.Len(); refused && n != 3 {
			t.Errorf("%d writes, want the metadata, and the messages 2 and 3", n)
		}
		r.verify("landed")
		wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 9})), 3)
		r.reopen()
		if r.verify("opened"); r.q.Len() != 2 {
			t.Errorf("%d messages", r.q.Len())
		}
	}
}

// TestOwnFull: in an actor that is full the lease of a message that its own batch enqueues
// is in memory alone, what the batch completes takes no room, and what it makes a dead
// letter waits if there is only room for the message.
func TestOwnFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1}, batch.Limits{Storage: 1000})
		r.enqueue("a", "x")
		m := r.one(ReceiveOptions{AtMostOnce: true})
		one := int64(messageKeySize(layout) + batch.WrapperBytes + (&record{name: "a", body: m.Body}).size())

		r.full()
		var none batch.Batch
		r.stageEnqueue(&none, Send{Name: "a", Body: "x"})
		must(t, r.q.In(&none).Complete(r.stageReceive(&none, ReceiveOptions{})[0].Receipt(), nil))
		must(t, r.actor.Commit(ctx, &none))
		r.verify("completed")

		r.fullBut(one)
		var b batch.Batch
		r.stageEnqueue(&b, Send{Name: "a", Body: "x"})
		lone := r.stageReceive(&b, ReceiveOptions{})[0]
		must(t, r.actor.Commit(ctx, &b))
		if r.record(lone.ID).inFlight.set || lone.Receipt().Nonce == 0 {
			t.Errorf("the lease of %s is stored", lone.Receipt())
		}
		must(t, lone.Complete(ctx, nil))

		r.fullBut(one)
		var dies batch.Batch
		r.stageEnqueue(&dies, Send{Name: "a", Body: "x"})
		must(t, r.q.In(&dies).Nack(ctx, r.stageReceive(&dies, ReceiveOptions{})[0].Receipt(), 0, nil))
		must(t, r.actor.Commit(ctx, &dies))
		if s := r.q.Stats().Names; len(s) != 1 || s[0].Dying != 1 {
			t.Errorf("stats %+v", s)
		}
		synctest.Wait() // it has tried in vain: it doesn't try again while there is room for a moment
		r.fullBut(100)
		r.enqueue("b", nil) // with a commit of the queue comes the room
		synctest.Wait()
		if s := r.q.Stats().Names; len(s) != 2 || s[0].Name != "a.dlq" || s[0].Ready != 1 {
			t.Errorf("stats %+v", s)
		}
		r.verify("in the end")
	})
}

// TestReceiveAgain: what a batch gives back it can receive once more, in its place.
func TestReceiveAgain(t *testing.T) {
	r := newRig(t, Options{MaxReceive: 3})
	ids := []ID{r.enqueue("a", nil), r.enqueue("b", nil)}
	var b batch.Batch
	tx := r.q.In(&b)
	own, err := tx.Enqueue(Send{Name: "a"})
	must(t, err)
	ids = append(ids, own)
	receive := func(opts ReceiveOptions, want ...ID) []*Message {
		t.Helper()
		opts.Count = 5
		msgs := r.stageReceive(&b, opts)
		if len(msgs) != len(want) {
			t.Fatalf("received %d messages, want %d", len(msgs), len(want))
		}
		for i, m := range msgs {
			if m.ID != want[i] {
				t.Errorf("message %d is %s, want %s", i, m.ID, want[i])
			}
		}
		return msgs
	}
	first := receive(ReceiveOptions{}, ids...)
	receive(ReceiveOptions{})
	must(t, tx.Nack(ctx, first[2].Receipt(), 0, nil))
	must(t, tx.Nack(ctx, first[1].Receipt(), 0, nil))
	must(t, tx.Nack(ctx, first[0].Receipt(), time.Second, nil))
	receive(ReceiveOptions{Names: []string{"c"}})
	again := receive(ReceiveOptions{Names: []string{"a"}}, own)[0]
	if again.Deliveries != 2 {
		t.Errorf("%d deliveries, want 2", again.Deliveries)
	}
	wantErr(t, "the first receipt", tx.Complete(first[2].Receipt(), nil), ErrLeaseOver)
	must(t, tx.Nack(ctx, again.Receipt(), 0, nil))
	third := receive(ReceiveOptions{}, ids[1], own)
	must(t, tx.Nack(ctx, third[1].Receipt(), 0, nil)) // a dead letter
	must(t, tx.Nack(ctx, third[0].Receipt(), 0, nil))
	receive(ReceiveOptions{AtMostOnce: true}, ids[1])
	receive(ReceiveOptions{})
	must(t, r.actor.Commit(ctx, &b))
	r.verify("in the end")
	if s := r.q.Stats(); s.Messages != 2 || s.Names[0].Name != "a" || s.Names[0].Delayed != 1 || s.Names[1].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
}

// TestReceiveAgainFails: what can't be received once more has been given back all the same.
func TestReceiveAgainFails(t *testing.T) {
	r := newRigWith(t, Options{MemoryBytes: -1}, whole)
	id := r.enqueue("a", nil)
	r.enqueue("a", nil)
	var b batch.Batch
	tx := r.q.In(&b)
	must(t, tx.Nack(ctx, r.stageReceive(&b, ReceiveOptions{})[0].Receipt(), 0, nil))
	broken := errors.New("broken")
	r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken}) // the other one can't be read
	_, err := tx.Receive(ctx, &ReceiveOptions{Count: 2})
	wantErr(t, "receive", err, broken)
	must(t, r.actor.Commit(ctx, &b))
	r.verify("in the end")
	if m := r.one(ReceiveOptions{}); m.ID != id || m.Deliveries != 2 {
		t.Errorf("received %s for the %dth time", m.ID, m.Deliveries)
	}
}
