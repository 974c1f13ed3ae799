package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// got is what a Receive has returned, and when.
type got struct {
	ids   []ID
	after time.Duration
	err   error
}

// receiving begins a Receive, and returns what it will return.
func (r *rig) receiving(o ReceiveOptions) <-chan got {
	c, began := make(chan got, 1), time.Now()
	go func() {
		msgs, err := r.q.Receive(ctx, &o)
		c <- got{ids(msgs), time.Since(began), err}
	}()
	synctest.Wait()
	return c
}

func (r *rig) wantGot(what string, c <-chan got, after time.Duration, want ...ID) {
	r.t.Helper()
	g := <-c
	must(r.t, g.err)
	wantIDs(r.t, what, g.ids, want...)
	if g.after != after {
		r.t.Errorf("%s: after %v, want %v", what, g.after, after)
	}
}

// TestLinger: Receive waits until there are so many, or the oldest has been visible for so long, and leases nothing meanwhile.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		o := ReceiveOptions{Names: []string{"a", "b", "a"}, Count: 3, Linger: 10 * time.Second, AtMostOnce: true}
		c := r.receiving(o)
		later(time.Hour)
		r.enqueue("a", 1)
		r.enqueue("c", 2) // of another name
		later(4 * time.Second)
		r.enqueue("b", 3)
		if s := r.q.Stats(); s.Of("a").Ready+s.Of("b").Ready != 2 {
			t.Errorf("stats %+v", s)
		}
		r.wantCost("waiting", 0, 0, func() { later(4 * time.Second) })
		r.wantGot("the time", c, time.Hour+10*time.Second, 1, 3)

		c = r.receiving(o)
		for range 4 {
			later(time.Second)
			r.enqueue("a", nil) // 4 to 7
		}
		r.wantGot("enough", c, 3*time.Second, 4, 5, 6)

		later(time.Minute)
		r.wantGot("one that has waited", r.receiving(o), 0, 7)

		o.Timeout = 5 * time.Second
		r.wantGot("none", r.receiving(o), 5*time.Second)
		c = r.receiving(o)
		later(time.Second)
		r.enqueue("a", nil) // 8
		r.wantGot("what is there in the end", c, 5*time.Second, 8)

		o.Timeout = 0
		c = r.receiving(o)
		r.enqueue("a", nil) // 9
		later(5 * time.Second)
		wantIDs(t, "another receiver", ids(r.try(ReceiveOptions{Names: o.Names, AtMostOnce: true})), 9)
		later(time.Minute)
		r.enqueue("a", nil) // 10
		r.wantGot("that of the first is over", c, 75*time.Second, 10)
	})
}

// TestLingerSince: what counts is when a message became visible: after its delay, its lease, or when it was given back.
func TestLingerSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		o := ReceiveOptions{Names: []string{"a"}, Count: 3, Linger: 10 * time.Second}
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute})
		must(t, err)
		r.wantGot("delayed", r.receiving(o), 70*time.Second, 1)
		r.wantGot("leased", r.receiving(o), 40*time.Second, 1)
		c := r.receiving(o)
		later(20 * time.Second)
		must(t, r.q.Nack(ctx, Receipt{ID: 1, Deliveries: 2}, 0, nil))
		r.wantGot("given back", c, 30*time.Second, 1)
		c = r.receiving(o)
		synctest.Wait()
		must(t, r.q.Close())
		if g := <-c; !errors.Is(g.err, ErrClosed) {
			t.Errorf("closed: %v", g.err)
		}
	})
}

// TestApart: a message that was handed out before comes by itself, and at once.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for range 5 {
			r.enqueue("a", nil)
		}
		for _, id := range []ID{2, 3} {
			msgs := r.try(ReceiveOptions{IDs: []ID{id}})
			wantIDs(t, "by its id", ids(msgs), id)
			must(t, msgs[0].Nack(ctx, 0, nil))
		}
		o := ReceiveOptions{Count: 9, Linger: time.Minute, Apart: true}
		r.wantGot("before them", r.receiving(o), 60*time.Second, 1)
		r.wantGot("the first", r.receiving(o), 0, 2)
		r.wantGot("the second", r.receiving(o), 0, 3)
		r.verify("received")
		later(30 * time.Second) // the leases are over
		var b batch.Batch
		r.stageEnqueue(&b, Send{Name: "a"}) // 6
		for _, want := range [][]ID{{1}, {2}, {3}, {4, 5, 6}, nil} {
			wantIDs(t, "staged", ids(r.stageReceive(&b, o)), want...)
		}
		b.Abort(nil)
		r.verify("aborted")
	})
}

// TestReceiveIDs receives messages by their ids: those that are visible and have one of the names, in that order.
func TestReceiveIDs(t *testing.T) {
	r := newRig(t, Options{})
	for _, name := range []string{"a", "b", "a", "a"} {
		r.enqueue(name, nil)
	}
	wantIDs(t, "leased", ids(r.try(ReceiveOptions{})), 1)
	wantIDs(t, "some", ids(r.try(ReceiveOptions{Names: []string{"a"}, IDs: []ID{4, 1, 7, 2, 3, 4}, Count: 9})), 4, 3)
	wantIDs(t, "no more", ids(r.try(ReceiveOptions{IDs: []ID{1, 3}, Count: 9})))
	r.verify("in the end")
}

// TestWaitToReceive returns when there is enough, and takes nothing.
func TestWaitToReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for _, linger := range []time.Duration{-1, 0, time.Second, Forever} {
			began, done := time.Now(), make(chan error, 1)
			within, cancel := context.WithTimeout(ctx, time.Hour)
			go func() { done <- r.q.WaitToReceive(within, &ReceiveOptions{Count: 2, Linger: linger}) }()
			later(time.Minute)
			r.enqueue("a", nil)
			err, took := <-done, time.Since(began)
			switch {
			case linger < 0:
				wantErr(t, "a negative one", err, ErrInvalid)
			case linger == Forever:
				wantErr(t, "for ever", err, context.DeadlineExceeded)
			case err != nil || took != time.Minute+linger:
				t.Errorf("%v: %v after %v", linger, err, took)
			}
			cancel()
			if n, err := r.q.Purge(ctx); err != nil || n != 1 {
				t.Errorf("%d messages, %v", n, err)
			}
		}
	})
}
