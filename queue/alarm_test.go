package queue

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A host remembers when it was told to wake the actor.
type host struct {
	mu   sync.Mutex
	next time.Time
}

func (h *host) clock() *alarm.Clock {
	return alarm.New(&alarm.Options{OnChange: func(next time.Time) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.next = next
	}})
}

// at is when the actor must be woken, zero for never.
func (h *host) at() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

// TestSleep closes the queue of an actor that goes to sleep, with everything in it that is
// due later: the host was told when, and is told nothing else by the closing.
func TestSleep(t *testing.T) {
	const due = time.Hour
	receive := func(r *rig) *Message {
		r.enqueue("a", nil)
		return r.one(ReceiveOptions{Visibility: due})
	}
	for what, c := range map[string]struct {
		do   func(r *rig)
		want time.Duration // 0: never
		most int           // Options.MaxReceive
	}{
		"nothing":    {do: func(*rig) {}},
		"visible":    {do: func(r *rig) { r.enqueue("a", nil) }},
		"completed":  {do: func(r *rig) { must(r.t, receive(r).Complete(ctx, nil)) }},
		"given back": {do: func(r *rig) { must(r.t, receive(r).Nack(ctx, 0, nil)) }},
		"leased":     {do: func(r *rig) { receive(r) }, want: due},
		"delayed": {do: func(r *rig) {
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: due})
			must(r.t, err)
		}, want: due},
		"given back later": {do: func(r *rig) { must(r.t, receive(r).Nack(ctx, 2*due, nil)) }, want: 2 * due},
		"completed by a batch that doesn't land": {do: func(r *rig) {
			m := receive(r)
			must(r.t, r.q.In(new(batch.Batch)).Complete(m.Receipt(), nil))
			later(time.Minute) // the clock rings for others meanwhile
			r.enqueue("b", nil)
			r.one(ReceiveOptions{Visibility: 2 * due})
		}, want: due},
		"overdue in a batch that doesn't land": {do: func(r *rig) {
			m := receive(r)
			must(r.t, r.q.In(new(batch.Batch)).Complete(m.Receipt(), nil))
			later(due + time.Minute)
		}, want: due},
		"a dead letter that can't be stored": {do: func(r *rig) {
			receive(r)
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: errors.New("broken"), Times: faultkv.Forever})
			later(due)
		}, want: due + minBackoff, most: 1},
		"a dead letter that is set aside": {do: func(r *rig) {
			receive(r)
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Times: faultkv.Forever})
			later(due)
		}, most: 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h host
				clock := h.clock()
				r := newRig(t, Options{Env: part.Env{Clock: clock}, MaxReceive: c.most, MemoryBytes: -1})
				start := time.Now()
				c.do(r)
				synctest.Wait()
				must(t, r.q.Close())
				clock.Close()
				want := start.Add(c.want)
				if c.want == 0 {
					want = time.Time{}
				}
				if !h.at().Equal(want) {
					t.Errorf("the host wakes the actor at %v, want %v", h.at(), want)
				}
				r.engine.Heal()
			})
		})
	}
}

// TestAlarmDuringBatch: if the process ends while a batch has a message whose lease is
// over, the actor must be woken for it; so there is a time in the clock all the while.
func TestAlarmDuringBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		clock := h.clock()
		r := newRig(t, Options{Env: part.Env{Clock: clock}, Visibility: time.Second})
		defer clock.Close()
		r.enqueue("a", nil)
		m := r.one(ReceiveOptions{})
		var b batch.Batch
		must(t, r.q.In(&b).Complete(m.Receipt(), nil))
		for range 5 {
			r.enqueue("b", nil)
			synctest.Wait()
			if h.at().IsZero() || time.Until(h.at()) > minBackoff {
				t.Errorf("the host wakes the actor at %v, now is %v", h.at(), time.Now())
			}
			later(700 * time.Millisecond)
		}
		must(t, r.actor.Commit(ctx, &b))
		synctest.Wait()
		if !h.at().IsZero() {
			t.Errorf("the host wakes the actor at %v", h.at())
		}
	})
}

// TestReopenedAlarm: the next queue of the same clock takes the place of the one before.
func TestReopenedAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		clock := h.clock()
		defer clock.Close()
		r := newRig(t, Options{Env: part.Env{Clock: clock}})
		start := time.Now()
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute})
		must(t, err)
		must(t, r.q.Close())
		later(time.Hour)
		if !h.at().Equal(start.Add(time.Minute)) {
			t.Errorf("while it was closed the host was told %v", h.at())
		}
		r.open2()
		r.one(ReceiveOptions{AtMostOnce: true})
		synctest.Wait() // while the alarm rings for what was due, its time counts
		if !h.at().IsZero() {
			t.Errorf("nothing is left, and the host wakes the actor at %v", h.at())
		}
	})
}

// TestFencedAlarm: a queue that lost the actor knows nothing new about when it must be woken.
func TestFencedAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		clock := h.clock()
		r := newRig(t, Options{Env: part.Env{Clock: clock}})
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute})
		must(t, err)
		want := h.at()
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrConflict})
		if _, err := r.q.Enqueue(ctx, Send{}); err == nil {
			t.Error("the actor isn't lost")
		}
		later(time.Hour)
		must(t, r.q.Close())
		if clock.Close(); !h.at().Equal(want) {
			t.Errorf("the host was told %v, before %v", h.at(), want)
		}
	})
}

// TestCloseWaits: a commit that is under way when the queue is closed lands or fails before
// Close returns, so that the next opening sees what is there, and gives no id twice.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		clock := h.clock()
		defer clock.Close()
		r := newRig(t, Options{Env: part.Env{Clock: clock}})
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		sent, closed := make(chan error, 1), make(chan error, 2)
		go func() {
			_, err := r.q.Enqueue(ctx, Send{Name: "first", Delay: time.Hour})
			sent <- err
		}()
		<-pause.Reached()
		for range cap(closed) { // the second one waits as well
			go func() { closed <- r.q.Close() }()
			synctest.Wait()
		}
		if n := len(closed); n > 0 {
			t.Errorf("%d Closes didn't wait", n)
		}
		pause.Release()
		must(t, <-sent)
		must(t, <-closed)
		must(t, <-closed)
		if h.at().IsZero() {
			t.Error("the host doesn't know of the message that landed last")
		}
		r.open2()
		if id := r.enqueue("second", nil); id != 2 || r.q.Len() != 2 {
			t.Errorf("id %s, %d messages", id, r.q.Len())
		}
		r.verify("in the end")
	})
}

// TestCloseDoesNotWait for a batch that is not being committed: one that is open, or that was
// refused.
func TestCloseDoesNotWait(t *testing.T) {
	r := newRig(t, Options{})
	var open, refused batch.Batch
	r.stageEnqueue(&open, Send{})
	r.stageEnqueue(&refused, Send{})
	no := errors.New("no")
	for range 2 {
		var spare batch.Batch
		refused.Mark(&spare)
		refused.Late(func(*batch.Batch) error { return no }) // its writes are staged by then
		wantErr(t, "commit", r.actor.Commit(ctx, &refused), no)
	}
	c := r.counted(func() { must(t, r.q.Close()) })
	if c.Commits+c.Gets+c.Scans > 0 {
		t.Errorf("Close asked the engine: %+v", c)
	}
	for _, b := range []*batch.Batch{&open, &refused} {
		wantErr(t, "commit", r.actor.Commit(ctx, b), ErrClosed)
	}
	r.open2()
	r.verify("in the end")
}
