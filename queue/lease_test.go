package queue

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// TestAtMostOnce removes the message with the commit that hands it out: with two, a crash
// between them would lose it, or leave the metadata counting what is gone.
func TestAtMostOnce(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", "x")
	r.enqueue("a", "y")
	r.wantCost("receive at most once", 1, 0, func() { r.one(ReceiveOptions{AtMostOnce: true}) })
	r.verify("after the first")
	r.reopen()
	m := r.one(ReceiveOptions{AtMostOnce: true})
	if m.ID != 2 || text(t, m.Body) != "y" {
		t.Errorf("got %+v", m)
	}
	wantErr(t, "complete", m.Complete(ctx, nil), ErrGone)
	r.reopen()
	if r.q.Len() != 0 {
		t.Error("a message came back")
	}
	if id := r.enqueue("a", nil); id != 3 {
		t.Errorf("the next id is %s", id)
	}
}

// TestLease keeps a received message from others until the lease ends.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Visibility: 10 * time.Second})
		r.enqueue("a", "x")
		first := r.one(ReceiveOptions{})
		if len(r.try(ReceiveOptions{})) > 0 {
			t.Error("a leased message was handed out")
		}
		later(9 * time.Second)
		r.reopen() // the lease outlives it
		if len(r.try(ReceiveOptions{})) > 0 {
			t.Error("a leased message was handed out after a restart")
		}
		r.verify("leased")
		later(time.Second)
		wantErr(t, "late completion", r.q.Complete(ctx, first.Receipt(), nil), ErrLeaseOver)
		second := r.one(ReceiveOptions{})
		if second.ID != first.ID || second.Deliveries != 2 || first.Deliveries != 1 {
			t.Errorf("got %+v, then %+v", first, second)
		}
		err := r.q.Complete(ctx, first.Receipt(), nil)
		wantErr(t, "completion by the one before", err, ErrLeaseOver)
		if Code(err) != "lease_over" {
			t.Errorf("code %q", Code(err))
		}
		r.reopen()
		must(t, r.q.Complete(ctx, second.Receipt(), nil)) // a receipt is good across restarts
		err = r.q.Complete(ctx, second.Receipt(), nil)
		if wantErr(t, "again", err, ErrGone); Code(err) != "already_completed" {
			t.Errorf("code %q", Code(err))
		}
		r.verify("in the end")
	})
}

// TestLeaseRecord stores the lease in the fields that are there for it.
func TestLeaseRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		id := r.enqueue("a", "x")
		now := time.Now().UnixMilli()
		later(time.Second)
		m := r.one(ReceiveOptions{Visibility: 5 * time.Second})
		rec := r.record(id)
		if rec.deliveries != some[uint32](1) || rec.inFlight != some(true) || rec.since != some(now+1000) || rec.available != some(now+6000) || rec.created != now {
			t.Errorf("leased: %+v", rec)
		}
		must(t, r.q.Extend(ctx, m.Receipt(), 20*time.Second))
		if rec = r.record(id); rec.available != some(now+21_000) || rec.deliveries != some[uint32](1) {
			t.Errorf("extended: %+v", rec)
		}
		must(t, m.Nack(ctx, 2*time.Second, nil))
		if rec = r.record(id); rec.deliveries != some[uint32](1) || rec.inFlight != some(false) || rec.since.set || rec.available != some(now+3000) {
			t.Errorf("given back: %+v", rec)
		}
		r.verify("given back")
	})
}

// TestExtend lets a lease last longer, or shorter.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Visibility: 10 * time.Second})
		r.enqueue("a", "x")
		m := r.one(ReceiveOptions{})
		later(9 * time.Second)
		must(t, r.q.Extend(ctx, m.Receipt(), 10*time.Second))
		later(9 * time.Second)
		if len(r.try(ReceiveOptions{})) > 0 {
			t.Error("handed out during the extension")
		}
		must(t, r.q.Extend(ctx, m.Receipt(), time.Second))
		r.verify("extended")
		later(time.Second)
		wantErr(t, "too late", r.q.Extend(ctx, m.Receipt(), time.Second), ErrLeaseOver)
		if got := r.one(ReceiveOptions{}); got.Deliveries != 2 {
			t.Errorf("got %+v", got)
		}
		wantErr(t, "by nothing", r.q.Extend(ctx, m.Receipt(), 0), ErrInvalid)
		wantErr(t, "one that isn't there", r.q.Extend(ctx, Receipt{ID: 9, Deliveries: 1}, time.Second), ErrGone)
	})
}

// TestNack gives a message back, at its place, at once or later.
func TestNack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for range 3 {
			r.enqueue("a", nil)
		}
		msgs := r.try(ReceiveOptions{Count: 2})
		must(t, msgs[0].Nack(ctx, 0, nil))
		must(t, msgs[1].Nack(ctx, time.Minute, nil))
		wantErr(t, "twice", msgs[0].Nack(ctx, 0, nil), ErrLeaseOver)
		wantErr(t, "a negative delay", msgs[0].Nack(ctx, -1, nil), ErrInvalid)
		r.verify("given back")
		r.reopen()
		wantIDs(t, "before the delay is over", ids(r.try(ReceiveOptions{Count: 9, Visibility: time.Hour})), 1, 3)
		later(time.Minute)
		if m := r.one(ReceiveOptions{}); m.ID != 2 || m.Deliveries != 2 {
			t.Errorf("got %+v", m)
		}
	})
}

// TestDelay hides a message until its time.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute})
		must(t, err)
		r.enqueue("a", nil)
		wantIDs(t, "before", ids(r.try(ReceiveOptions{Count: 9, AtMostOnce: true})), 2)
		r.reopen()
		r.verify("delayed")
		// The waiter is woken by the alarm alone.
		start := time.Now()
		msgs, err := r.q.Receive(ctx, nil)
		must(t, err)
		if took := time.Since(start); took != time.Minute || len(msgs) != 1 || msgs[0].ID != 1 {
			t.Errorf("got %v after %v", ids(msgs), took)
		}
	})
}

// TestDeadLetter lays a message aside that was handed out often enough: when it is given
// back, and when its last lease ends.
func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 2, Visibility: time.Second})
		r.enqueue("a", "nacked")
		r.enqueue("a", "expired")
		for range 2 {
			msgs := r.try(ReceiveOptions{Count: 2})
			wantIDs(t, "received", ids(msgs), 1, 2)
			r.wantCost("nack", 1, 0, func() { must(t, msgs[0].Nack(ctx, 0, nil)) })
			later(time.Second)
			synctest.Wait() // for the alarm
			r.verify("after a round")
		}
		wantIDs(t, "of the name", ids(r.try(ReceiveOptions{Names: []string{"a"}, Count: 9})))
		r.reopen()
		for range 3 { // dead letters have no dead letters
			msgs := r.try(ReceiveOptions{Names: []string{"a.dlq"}, Count: 9})
			wantIDs(t, "dead letters", ids(msgs), 3, 4)
			for i, want := range []string{"nacked", "expired"} {
				if got := text(t, msgs[i].Body); got != want || msgs[i].Name != "a.dlq" {
					t.Errorf("got %+v, want %s", msgs[i], want)
				}
				must(t, msgs[i].Nack(ctx, 0, nil))
			}
		}
		r.verify("in the end")
	})
}

// TestDeadLetterAtStart lays aside what was due while the actor was away.
func TestDeadLetterAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 1, Visibility: time.Second})
		r.enqueue("a", nil)
		r.one(ReceiveOptions{})
		r.close()
		later(time.Minute)
		r.open()
		synctest.Wait()
		if s := r.q.Stats(); len(s.Names) != 1 || s.Names[0].Name != "a.dlq" {
			t.Errorf("stats %+v", s)
		}
		r.verify("in the end")
	})
}

// TestPlain stores nothing that a reader without leases would take for something else.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Plain: true, MaxReceive: 2, Visibility: time.Second})
		_, err := r.q.Enqueue(ctx, Send{Delay: time.Second})
		wantErr(t, "a delay", err, ErrPlain)
		id := r.enqueue("a", nil)
		before := r.record(id)
		r.wantCost("receive", 0, 0, func() { r.one(ReceiveOptions{}) })
		if len(r.try(ReceiveOptions{})) > 0 {
			t.Error("a leased message was handed out")
		}
		later(time.Second)
		m := r.one(ReceiveOptions{})
		must(t, r.q.Extend(ctx, m.Receipt(), time.Minute))
		if got := r.record(id); fmt.Sprint(got) != fmt.Sprint(before) || m.Deliveries != 2 {
			t.Errorf("stored is %+v, before %+v; message %+v", got, before, m)
		}
		must(t, m.Nack(ctx, 0, nil))
		if rec := r.record(2); rec.name != "a.dlq" || rec.deliveries.set || rec.inFlight.set || rec.available.set {
			t.Errorf("the dead letter is %+v", rec)
		}
		r.one(ReceiveOptions{})
		r.reopen() // ends the lease
		m = r.one(ReceiveOptions{})
		must(t, m.Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestForeignLarge leases in memory what has no room for the fields of a lease: such a
// message was stored by another program.
func TestForeignLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Second}, batch.Limits{ValueSize: 4096})
		limit := r.actor.Limits().ValueSize
		must(t, r.q.Close())
		rec := record{name: "a", body: cborBytes(limit - 50)}
		for rec.size() < limit {
			rec.name += "a"
		}
		r.stored(appendMessageKey(layout, nil, 1), rec.encode())
		r.open2()
		for n := range 3 {
			m := r.one(ReceiveOptions{})
			if m.Deliveries != uint32(n+1) || len(r.try(ReceiveOptions{})) > 0 {
				t.Errorf("got delivery %d, or it was handed out twice", m.Deliveries)
			}
			if n == 1 {
				must(t, m.Nack(ctx, 0, nil))
				continue
			}
			later(time.Second)
			synctest.Wait()
		}
		must(t, r.one(ReceiveOptions{}).Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestDeliveriesBegin anew behind the largest number that the record has: what was handed
// out is never as if it hadn't been.
func TestDeliveriesBegin(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.q.Close())
	rec := record{name: "a", body: undefined, deliveries: some(uint32(math.MaxUint32)), inFlight: some(false)}
	r.stored(appendMessageKey(layout, nil, 1), rec.encode())
	r.open2()
	m := r.one(ReceiveOptions{})
	if stored := r.record(1).deliveries; m.Deliveries != 1 || stored.value != 1 {
		t.Errorf("delivery %d, stored is %v", m.Deliveries, stored)
	}
	must(t, m.Complete(ctx, nil))
	r.verify("in the end")
}

// TestForever takes the longest time there is for a lease, a delay, an extension and a
// window of keys: nothing wraps around.
func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Visibility: Forever, KeyWindow: Forever})
		for range 3 {
			r.enqueue("a", nil)
		}
		century := time.Now().AddDate(200, 0, 0)
		leased, set, extended := r.one(ReceiveOptions{}), r.one(ReceiveOptions{Visibility: Forever}), r.one(ReceiveOptions{Visibility: time.Second})
		must(t, r.q.Extend(ctx, extended.Receipt(), Forever))
		if leased.Until.Before(century) || set.Until.Before(century) || r.record(extended.ID).available.value < century.UnixMilli() {
			t.Errorf("leases until %v, %v and %d", leased.Until, set.Until, r.record(extended.ID).available.value)
		}
		_, err := r.q.Enqueue(ctx, Send{Delay: Forever})
		must(t, err)
		given := r.keyed("a", "k")
		must(t, set.Nack(ctx, Forever, nil))
		must(t, r.one(ReceiveOptions{}).Complete(ctx, nil)) // the keyed one
		later(1000 * time.Hour)
		wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 9})))
		wantIDs(t, "sent again", []ID{r.keyed("a", "k")}, given)
		must(t, leased.Complete(ctx, nil))
		must(t, extended.Complete(ctx, nil))
		r.verify("in the end")
		r.reopen()
		wantIDs(t, "after a restart", ids(r.try(ReceiveOptions{Count: 9})))
	})
}

// TestAfter rounds up to the millisecond, and stops at the last one.
func TestAfter(t *testing.T) {
	for _, c := range []struct {
		now  int64
		d    time.Duration
		want int64
	}{
		{5, 0, 5},
		{5, 1, 6},
		{5, time.Millisecond, 6},
		{5, time.Millisecond + 1, 7},
		{0, Forever, int64(Forever)/1e6 + 1},
		{0, Forever - 1, int64(Forever)/1e6 + 1},
		{math.MaxInt64 - 1, Forever, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
	} {
		if got := after(c.now, c.d); got != c.want {
			t.Errorf("%v from %d is %d, want %d", c.d, c.now, got, c.want)
		}
	}
}
