package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRungEarly sets the alarm again that rang before its time, as it does when the clock is
// set back meanwhile.
func TestRungEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		_, err := r.q.Enqueue(ctx, Send{Delay: time.Minute})
		must(t, err)
		r.q.bell.source.Set(time.Time{}) // what the alarm does before it rings
		r.q.ring()
		msgs, err := r.q.Receive(ctx, &ReceiveOptions{Timeout: time.Hour})
		must(t, err)
		wantIDs(t, "received", ids(msgs), 1)
	})
}

// TestAlarm shares the actor's clock with others, and wants to be rung for the earliest of
// what it waits for, and for nothing else.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		start := time.Now()
		want := func(what string, at time.Duration) {
			t.Helper()
			got := r.q.clock.Next()
			if at == 0 && !got.IsZero() || at != 0 && !got.Equal(start.Add(at)) {
				t.Errorf("%s: the alarm is set to %v after the start, want %v", what, got.Sub(start), at)
			}
		}
		want("nothing", 0)
		r.enqueue("a", nil)
		want("a visible message", 0)
		m := r.one(ReceiveOptions{Visibility: time.Minute})
		want("a lease", time.Minute)
		_, err := r.q.Enqueue(ctx, Send{Delay: time.Second})
		must(t, err)
		want("a delay", time.Second)
		later(time.Second)
		synctest.Wait()
		want("the delay is over", time.Minute)
		must(t, r.q.Extend(ctx, m.Receipt(), time.Hour))
		want("an extension", time.Hour+time.Second)
		must(t, m.Complete(ctx, nil))
		want("completed", 0)
	})
}
