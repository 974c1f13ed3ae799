package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestWaiting waits without asking the engine for anything, and is woken by what comes.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		type result struct {
			msgs []*Message
			err  error
		}
		got := make(chan result, 1)
		receive := func(ctx context.Context, o ReceiveOptions) {
			go func() {
				msgs, err := r.q.Receive(ctx, &o)
				got <- result{msgs, err}
			}()
			synctest.Wait()
		}
		c := r.counted(func() {
			receive(ctx, ReceiveOptions{Names: []string{"b"}, AtMostOnce: true})
			later(time.Hour)
			synctest.Wait()
		})
		if c.Commits+c.Gets+c.Scans+c.Snapshots != 0 {
			t.Errorf("waiting cost %+v", c)
		}
		r.enqueue("a", nil)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("woken by another name")
		}
		r.enqueue("b", nil)
		if res := <-got; res.err != nil || len(res.msgs) != 1 || res.msgs[0].ID != 2 {
			t.Errorf("got %+v", res)
		}

		start := time.Now()
		msgs, err := r.q.Receive(ctx, &ReceiveOptions{Names: []string{"b"}, Timeout: time.Minute})
		if err != nil || msgs != nil || time.Since(start) != time.Minute {
			t.Errorf("after the timeout: %v, %v, %v", msgs, err, time.Since(start))
		}
		stopped, stop := context.WithCancel(ctx)
		receive(stopped, ReceiveOptions{Names: []string{"b"}})
		stop()
		if res := <-got; !errors.Is(res.err, context.Canceled) || res.msgs != nil {
			t.Errorf("after a cancel: %+v", res)
		}
		_, err = r.q.Receive(stopped, nil) // there is one, and no call wants it
		wantErr(t, "with a context that is over", err, context.Canceled)
		receive(ctx, ReceiveOptions{Names: []string{"b"}})
		must(t, r.q.Close())
		if res := <-got; !errors.Is(res.err, ErrClosed) || Code(res.err) != "aborted" {
			t.Errorf("after the end: %+v", res)
		}
	})
}

// TestNoLostWakeUp has two receivers and two senders hand over many messages, one at a
// time: if one wake-up were lost, they would wait for ever.
func TestNoLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		const n = 300
		got := make(chan ID, 2*n)
		for _, names := range [][]string{{"a"}, {"a", "b"}, nil} {
			go func() {
				for m, err := range r.q.All(ctx, &ReceiveOptions{Names: names, AtMostOnce: true}) {
					if err != nil {
						t.Error(err)
						return
					}
					got <- m.ID
				}
			}()
		}
		for _, name := range []string{"a", "b"} {
			go func() {
				for range n {
					r.enqueue(name, nil)
				}
			}()
		}
		seen := map[ID]bool{}
		for range 2 * n {
			id := <-got
			if seen[id] {
				t.Errorf("message %s came twice", id)
			}
			seen[id] = true
		}
		synctest.Wait() // a receiver that lost the last message to another has a batch open yet
		r.verify("in the end")
	})
}

// TestPingPong has two that wait for each other's messages: the window between a look that
// finds nothing and the waiting is met again and again, and may lose nothing.
func TestPingPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a minute is over when all wait, and not before
		r := newRig(t, Options{})
		over, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		const rounds = 5000
		play := func(mine, yours string, wait func() error) error {
			for range rounds {
				if _, err := r.q.Enqueue(over, Send{Name: yours}); err != nil {
					return err
				}
				if err := wait(); err != nil {
					return err
				}
				msgs, err := r.q.Receive(over, &ReceiveOptions{Names: []string{mine}, AtMostOnce: true})
				if err != nil || len(msgs) != 1 {
					return fmt.Errorf("got %d messages, %w", len(msgs), err)
				}
			}
			return nil
		}
		errs := make(chan error, 2)
		go func() { errs <- play("ping", "pong", func() error { return nil }) }()
		go func() { errs <- play("pong", "ping", func() error { return r.q.WaitFor(over, "pong") }) }()
		for range 2 {
			must(t, <-errs)
		}
	})
}

// TestWaitForOther returns the name of a message that is visible and has none of the names.
func TestWaitForOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.enqueue("a", nil)
		got := make(chan string, 1)
		wait := func(ctx context.Context, names ...string) {
			go func() {
				name, err := r.q.WaitForOther(ctx, names...)
				if err != nil {
					name = err.Error()
				}
				got <- name
			}()
			synctest.Wait()
		}
		wait(ctx)
		if name := <-got; name != "a" {
			t.Errorf("got %q", name)
		}
		wait(ctx, "a", "b")
		r.enqueue("b", nil)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("woken by a message of one of the names: %q", <-got)
		}
		r.enqueue("c", nil)
		if name := <-got; name != "c" {
			t.Errorf("got %q", name)
		}
		over, cancel := context.WithCancel(ctx)
		wait(over, "a", "b", "c")
		cancel()
		if name := <-got; name != context.Canceled.Error() {
			t.Errorf("got %q", name)
		}
	})
}

// TestWaitFor tells that a message is there, and leaves it there.
func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		done := make(chan error, 1)
		go func() { done <- r.q.WaitFor(ctx, "b") }()
		synctest.Wait()
		r.enqueue("a", nil)
		synctest.Wait()
		if len(done) > 0 {
			t.Error("another name was waited for")
		}
		_, err := r.q.Enqueue(ctx, Send{Name: "b", Delay: time.Minute})
		must(t, err)
		start := time.Now()
		must(t, <-done)
		if time.Since(start) != time.Minute {
			t.Errorf("woken after %v", time.Since(start))
		}
		must(t, r.q.WaitFor(ctx))
		wantIDs(t, "still there", ids(r.try(ReceiveOptions{Count: 9})), 1, 2)
		for m, err := range r.q.All(ctx, &ReceiveOptions{Count: 2}) {
			if wantErr(t, "two at once", err, ErrInvalid); m != nil {
				t.Errorf("got %v", m)
			}
		}
		over, stop := context.WithCancel(ctx)
		stop()
		wantErr(t, "cancelled", r.q.WaitFor(over), context.Canceled)
		go func() { done <- r.q.WaitFor(ctx) }()
		synctest.Wait()
		must(t, r.q.Close())
		wantErr(t, "closed", <-done, ErrClosed)
	})
}

// TestAll yields one message after the other, and completes what is left open when it goes on.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for range 5 {
			r.enqueue("a", nil)
		}
		var got []ID
		for m, err := range r.q.All(ctx, nil) {
			must(t, err)
			if got = append(got, m.ID); len(got) == 5 {
				break // which completes nothing
			}
			switch len(got) {
			case 1:
				must(t, m.Complete(ctx, nil))
			case 2:
				later(defaultVisibility) // the lease ends: no receiver has it
			case 3:
				if m.ID != 2 { // and comes again
					t.Errorf("got %s", m.ID)
				}
				must(t, m.Complete(ctx, nil))
			}
		}
		wantIDs(t, "yielded", got, 1, 2, 2, 3, 4)
		later(defaultVisibility)
		got = nil
		for m, err := range r.q.All(ctx, &ReceiveOptions{AtMostOnce: true, Timeout: time.Second}) {
			must(t, err)
			got = append(got, m.ID)
		}
		wantIDs(t, "with a timeout", got, 4, 5)
		over, stop := context.WithCancel(ctx)
		go func() { later(time.Second); stop() }()
		for m, err := range r.q.All(over, &ReceiveOptions{Names: []string{"b"}}) {
			t.Errorf("got %v, %v", m, err)
		}
		go func() { later(time.Second); must(t, r.q.Close()) }()
		for m, err := range r.q.All(ctx, &ReceiveOptions{Names: []string{"b"}}) {
			t.Errorf("got %v, %v", m, err)
		}
	})
}

// TestAllEnds quietly, too, when its look at a message takes longer than the queue and the
// actor are open.
func TestAllEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MemoryBytes: -1})
		r.enqueue("a", nil)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeScan})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for m, err := range r.q.All(ctx, nil) {
				t.Errorf("got %v, %v", m, err)
			}
		}()
		<-pause.Reached()
		must(t, r.q.Close())
		must(t, r.actor.Close())
		pause.Release()
		<-done
	})
}

// TestAllStaged leaves to a batch what that is about to settle, and completes what another one has
// given up.
func TestAllStaged(t *testing.T) {
	r := newRig(t, Options{})
	for range 3 {
		r.enqueue("a", nil)
	}
	var got []ID
	var b, other batch.Batch
	for m, err := range r.q.All(ctx, nil) {
		must(t, err)
		if got = append(got, m.ID); len(got) == 3 {
			break
		}
		switch len(got) {
		case 1:
			must(t, r.q.In(&b).Complete(m.Receipt(), nil))
		case 2:
			must(t, r.q.In(&other).Complete(m.Receipt(), nil))
			other.Abort(nil)
		}
	}
	wantIDs(t, "yielded", got, 1, 2, 3)
	if n := r.q.Len(); n != 2 {
		t.Errorf("%d messages are left, want the first and the last", n)
	}
	must(t, r.actor.Commit(ctx, &b))
	r.verify("in the end")
}

// TestNext completes one message and hands out the next one by one commit, and completes it
// before it waits.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		a, err := r.q.Expect(r.enqueue("a", nil))
		must(t, err)
		r.enqueue("a", nil)
		r.enqueue("b", nil)
		next := func(before *Message, o *ReceiveOptions) (m *Message) {
			t.Helper()
			m, err := r.q.Next(ctx, before, "done", o)
			must(t, err)
			return m
		}
		var m *Message
		r.wantCost("the first", 1, 0, func() { m = next(nil, nil) })
		r.wantCost("another", 1, 0, func() { m = next(m, nil) })
		wantIDs(t, "received", []ID{m.ID}, 2)
		if answer, err := a.Wait(ctx); text(t, answer) != "done" || err != nil {
			t.Errorf("the answer is %v, %v", answer, err)
		}
		r.wantCost("none of the name in time", 1, 0, func() {
			if m := next(m, &ReceiveOptions{Names: []string{"a"}, Timeout: time.Second}); m != nil {
				t.Errorf("received %v", m)
			}
		})
		m = next(nil, nil)
		go func() {
			later(time.Hour)
			if n := r.q.Len(); n != 0 {
				t.Errorf("%d messages are there while Next waits", n)
			}
			r.enqueue("a", nil)
		}()
		m = next(m, nil)
		wantIDs(t, "waited for", []ID{m.ID}, 4)
		r.wantCost("what can't be completed", 0, 0, func() {
			r.enqueue("a", nil)
			later(defaultVisibility)
			_, err := r.q.Next(ctx, m, nil, nil)
			wantErr(t, "what can't be completed", err, ErrLeaseOver)
			r.engine.Reset()
		})
		_, err = r.q.Next(ctx, m, nil, &ReceiveOptions{Count: 2})
		wantErr(t, "two", err, ErrInvalid)
		wantIDs(t, "left", ids(r.try(ReceiveOptions{Count: 9})), 4, 5)
		r.verify("in the end")
	})
}

// TestNextApart completes a message though the next one can't be handed out by the same commit:
// it doesn't fit, or can't be read.
func TestNextApart(t *testing.T) {
	t.Run("too large together", func(t *testing.T) {
		r := newRig(t, Options{})
		r.enqueue("a", nil)
		r.enqueue("a", nil)
		m := r.one(ReceiveOptions{})
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		m, err := r.q.Next(ctx, m, nil, nil)
		must(t, err)
		wantIDs(t, "received", []ID{m.ID}, 2)
		if n := r.q.Len(); n != 1 {
			t.Errorf("%d messages are left", n)
		}
		r.verify("too large together")
	})
	t.Run("not to be read", func(t *testing.T) {
		r := newRig(t, Options{MemoryBytes: -1})
		r.enqueue("a", nil)
		r.enqueue("a", nil)
		m := r.one(ReceiveOptions{})
		broken := errors.New("broken")
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken})
		_, err := r.q.Next(ctx, m, nil, nil)
		wantErr(t, "not to be read", err, broken)
		if n := r.q.Len(); n != 1 {
			t.Errorf("%d messages are left", n)
		}
		m, err = r.q.Next(ctx, nil, nil, nil)
		must(t, err)
		wantIDs(t, "received", []ID{m.ID}, 2)
		r.verify("not to be read")
	})
}

// TestWaitersOfLostActor: a waiting call learns that the actor is lost, though the queue
// isn't told: another owner took it over, or a commit that isn't the queue's poisoned it.
func TestWaitersOfLostActor(t *testing.T) {
	for want, lose := range map[error]func(r *rig){
		actorstore.ErrFenced: func(r *rig) {
			other, err := actorstore.Open(ctx, r.engine, nil)
			must(r.t, err)
			a, err := other.Named(ctx, "lobby", nil)
			must(r.t, err)
			must(r.t, a.Close())
			must(r.t, other.Close())
		},
		actorstore.ErrPoisoned: func(r *rig) {
			r.engine.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
			wantErr(r.t, "put", r.actor.Put(ctx, []byte{actorstore.NamespaceUser}, nil), actorstore.ErrPoisoned)
		},
		actorstore.ErrClosed: func(r *rig) { must(r.t, r.actor.Close()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{})
			a, err := r.q.Expect(r.enqueue("other", nil))
			must(t, err)
			var b batch.Batch
			r.stageEnqueue(&b, Send{Name: "a", Key: "k"})
			waiters := map[string]func() error{
				"receive":  func() error { _, err := r.q.Receive(ctx, &ReceiveOptions{Names: []string{"a"}}); return err },
				"wait for": func() error { return r.q.WaitFor(ctx, "a") },
				"ask":      func() error { _, err := r.q.EnqueueAndWait(ctx, Send{Name: "x"}, Forever); return err },
				"answer":   func() error { _, err := a.Wait(ctx); return err },
				"key":      func() error { _, err := r.q.Enqueue(ctx, Send{Name: "a", Key: "k"}); return err },
				"all": func() error {
					for _, err := range r.q.All(ctx, &ReceiveOptions{Names: []string{"a"}}) {
						return err
					}
					return nil
				},
			}
			type result struct {
				who string
				err error
			}
			got := make(chan result)
			for who, wait := range waiters {
				go func() { got <- result{who, wait()} }()
			}
			synctest.Wait()
			lose(r)
			for range waiters {
				res := <-got
				wantErr(t, res.who, res.err, want)
			}
			r.engine.Heal()
		})
	}
}

// TestWaitersOfStaleQueue: a waiting call is told that the queue must be opened again, though
// the actor is as good as before.
func TestWaitersOfStaleQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{}, batch.Limits{Entries: 2, AtomicBatches: envlimits.Unlimited})
		answer, err := r.q.Expect(r.enqueue("b", nil))
		must(t, err)
		waits := []func() error{
			func() error { _, err := r.q.Receive(ctx, &ReceiveOptions{Names: []string{"a"}}); return err },
			func() error { return r.q.WaitFor(ctx, "a") },
			func() error { _, err := answer.Wait(ctx); return err },
		}
		errs := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { errs <- wait() }()
		}
		synctest.Wait()
		b := batch.Batch{Mode: batch.Ordered}
		for range 5 {
			r.stageEnqueue(&b, Send{Name: "c"})
		}
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Skip: 1})
		var part *batch.OrderedError
		if err := r.actor.Commit(ctx, &b); !errors.As(err, &part) {
			t.Fatalf("the batch: %v", err)
		}
		synctest.Wait()
		if len(errs) != len(waits) {
			t.Fatalf("%d of %d are told", len(errs), len(waits))
		}
		for range waits {
			wantErr(t, "who waits", <-errs, ErrStale)
		}
	})
}

// TestWaitersOutlast a time in which the engine can't tell whose the actor is.
func TestWaitersOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, engines.Shared(memkv.New()), Options{}, batch.Limits{})
		r.enqueue("other", nil) // which registers the host
		got := make(chan error, 1)
		go func() {
			msgs, err := r.q.Receive(ctx, &ReceiveOptions{Names: []string{"a"}})
			if err == nil && len(msgs) != 1 {
				err = errors.New("no message")
			}
			got <- err
		}()
		synctest.Wait()
		broken := errors.New("broken")
		for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeGet, faultkv.BeforeScan} {
			r.engine.Fail(faultkv.Rule{Point: point, Err: broken, Times: faultkv.Forever})
		}
		later(time.Minute)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("who waits is told %v", <-got)
		}
		wantErr(t, "who asks is told", r.q.check(ctx), broken)
		r.engine.Heal()
		later(time.Minute)
		r.enqueue("a", nil)
		must(t, <-got)
	})
}
