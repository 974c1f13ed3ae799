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
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// echo completes every message with its own body.
func (r *rig) echo() {
	for m, err := range r.q.All(ctx, nil) {
		if err != nil {
			r.t.Error(err)
			return
		}
		if err := m.Complete(ctx, m.Body); err != nil {
			r.t.Error(err)
		}
	}
}

// TestEnqueueAndWait gets the response with which the message is completed.
func TestEnqueueAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		go r.echo()
		for i := range 100 {
			got, err := r.q.EnqueueAndWait(ctx, Send{Name: "a", Body: fmt.Sprint(i)}, time.Minute)
			must(t, err)
			if s := text(t, got); s != fmt.Sprint(i) {
				t.Errorf("call %d: got %q", i, s)
			}
		}
		if len(r.q.answers) != 0 {
			t.Errorf("%d are still waited for", len(r.q.answers))
		}
		r.verify("in the end")
	})
}

// TestFastCompletion: the message is completed before the commit that enqueues it has
// returned: the earliest moment there is.
func TestFastCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.AfterCommit})
		got := make(chan Raw, 1)
		go func() {
			response, err := r.q.EnqueueAndWait(ctx, Send{Name: "a"}, Forever)
			if err != nil {
				t.Error(err)
			}
			got <- response
		}()
		<-pause.Reached()
		must(t, r.one(ReceiveOptions{}).Complete(ctx, "fast"))
		pause.Release()
		if s := text(t, <-got); s != "fast" {
			t.Errorf("got %q", s)
		}
	})
}

// TestWaitTimeouts: without time nothing is enqueued, and when it is over the message is
// still there.
func TestWaitTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for _, timeout := range []time.Duration{0, -time.Second} {
			_, err := r.q.EnqueueAndWait(ctx, Send{Name: "a"}, timeout)
			if wantErr(t, "without time", err, ErrTimedOut); r.q.Len() != 0 || Code(err) != "timed_out" {
				t.Errorf("%d messages, code %q", r.q.Len(), Code(err))
			}
		}
		over, stop := context.WithCancel(ctx)
		stop()
		_, err := r.q.EnqueueAndWait(over, Send{Name: "a"}, time.Minute)
		wantErr(t, "with a context that is over", err, context.Canceled)
		if r.q.Len() != 0 {
			t.Error("it was enqueued")
		}
		start := time.Now()
		_, err = r.q.EnqueueAndWait(ctx, Send{Name: "a"}, time.Minute)
		wantErr(t, "after a minute", err, ErrTimedOut)
		if took := time.Since(start); took != time.Minute || r.q.Len() != 1 || len(r.q.answers) != 0 {
			t.Errorf("after %v: %d messages, %d waited for", took, r.q.Len(), len(r.q.answers))
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = r.q.EnqueueAndWait(short, Send{Name: "a"}, time.Minute)
		if wantErr(t, "the caller's own deadline", err, context.DeadlineExceeded); errors.Is(err, ErrTimedOut) {
			t.Error("it counts as the timeout")
		}
	})
}

// TestNoAnswer tells waiting callers that no answer will come.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 1, Visibility: time.Second})
		ends := map[string]func(id ID){
			"received at most once": func(ID) { r.one(ReceiveOptions{AtMostOnce: true}) },
			"deleted":               func(id ID) { _, err := r.q.Delete(ctx, id); must(t, err) },
			"nacked":                func(ID) { must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, nil)) },
			"expired":               func(ID) { r.one(ReceiveOptions{}); later(time.Second) },
		}
		for what, end := range ends {
			errs := make(chan error, 1)
			go func() {
				_, err := r.q.EnqueueAndWait(ctx, Send{Name: "a"}, Forever)
				errs <- err
			}()
			synctest.Wait()
			end(r.q.Stats().Next - 1)
			wantErr(t, what, <-errs, ErrNoAnswer)
			_, err := r.q.Purge(ctx)
			must(t, err)
		}
		_, err := r.q.Expect(1)
		wantErr(t, "one that is gone", err, ErrNoAnswer)
		var b batch.Batch
		staged, err := r.q.Expect(r.stageEnqueue(&b, Send{}))
		must(t, err)
		reason := errors.New("changed my mind")
		b.Abort(reason)
		_, err = staged.Wait(ctx)
		wantErr(t, "one that was never there", err, ErrNoAnswer)
		wantErr(t, "and why", err, reason)
		a, err := r.q.Expect(r.enqueue("a", nil))
		must(t, err)
		must(t, r.q.Close())
		_, err = a.Wait(ctx)
		wantErr(t, "closed", err, ErrClosed)
	})
}

// TestWaitAcrossRestart: the message outlives a restart, and a caller that sends again with
// its key waits for the very same.
func TestWaitAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		errs := make(chan error, 1)
		go func() {
			_, err := r.q.EnqueueAndWait(ctx, Send{Name: "a", Body: "x", Key: "order 1"}, Forever)
			errs <- err
		}()
		synctest.Wait()
		leased := r.one(ReceiveOptions{})
		must(t, r.q.Close())
		wantErr(t, "the first", <-errs, ErrClosed)
		r.reopen()
		got := make(chan Raw, 1)
		go func() {
			response, err := r.q.EnqueueAndWait(ctx, Send{Name: "a", Body: "x", Key: "order 1"}, Forever)
			errs <- err
			got <- response
		}()
		synctest.Wait()
		must(t, r.q.Complete(ctx, leased.Receipt(), "done")) // by the holder before
		if err, s := <-errs, <-got; err != nil || text(t, s) != "done" {
			t.Errorf("got %x, %v", s, err)
		}
		if r.q.Len() != 0 {
			t.Error("it was enqueued twice")
		}
		// Responses are not stored: a caller that asks after that learns that much.
		_, err := r.q.EnqueueAndWait(ctx, Send{Name: "a", Body: "x", Key: "order 1"}, Forever)
		wantErr(t, "too late", err, ErrNoAnswer)
	})
}

// TestAnswers gives the response to all that wait, and refuses one that can't be encoded.
func TestAnswers(t *testing.T) {
	r := newRig(t, Options{})
	id := r.enqueue("a", nil)
	var waits []*Answer
	for range 3 {
		a, err := r.q.Expect(id)
		must(t, err)
		waits = append(waits, a)
	}
	waits[2].Close()
	m := r.one(ReceiveOptions{})
	err := m.Complete(ctx, func() {})
	if wantErr(t, "a function", err, ErrInvalid); Code(err) != "invalid_completion_payload" {
		t.Errorf("code %q", Code(err))
	}
	over, stop := context.WithCancel(ctx)
	stop()
	_, err = waits[0].Wait(over)
	wantErr(t, "a context that is over", err, context.Canceled)
	must(t, m.Complete(ctx, map[string]any{"ok": true}))
	for _, a := range waits[:2] {
		got, err := a.Wait(over) // it has come already
		if err != nil || fmt.Sprintf("%x", []byte(got)) != "b90001626f6bf5" {
			t.Errorf("got %x, %v", got, err)
		}
	}
}

// TestAnswerIsDurable: a waiting caller learns of a completion when it is on stable storage,
// and not before, whatever commits it.
func TestAnswerIsDurable(t *testing.T) {
	for _, staged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{})
			a, err := r.q.Expect(r.enqueue("a", nil))
			must(t, err)
			m := r.one(ReceiveOptions{})
			point := faultkv.AfterCommit
			if staged {
				point = faultkv.BeforeSync
			}
			pause := r.engine.Pause(faultkv.Rule{Point: point})
			done := make(chan error, 1)
			go func() {
				if !staged {
					done <- m.Complete(ctx, "paid")
					return
				}
				var b batch.Batch
				if err := r.q.In(&b).Complete(m.Receipt(), "paid"); err != nil {
					t.Error(err)
				}
				done <- r.actor.Apply(ctx, &b)
			}()
			<-pause.Reached()
			synctest.Wait()
			if len(a.came) > 0 {
				t.Errorf("staged %v: answered while it may be lost", staged)
			}
			pause.Release()
			must(t, <-done)
			got, err := a.Wait(ctx)
			if err != nil || text(t, got) != "paid" {
				t.Errorf("staged %v: got %x, %v", staged, got, err)
			}
		})
	}
}

// TestAnswerIsLost: a waiting caller learns that a completion, or what ends the waiting, was
// applied and could not be made durable: it isn't known what a crash leaves of it.
func TestAnswerIsLost(t *testing.T) {
	for what, end := range map[string]func(r *rig, m *Message) error{
		"completed": func(r *rig, m *Message) error {
			r.engine.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
			return m.Complete(ctx, "paid")
		},
		"deleted": func(r *rig, m *Message) error {
			r.engine.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
			_, err := r.q.Delete(ctx, m.ID)
			return err
		},
		"completed by a batch": func(r *rig, m *Message) error {
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeSync})
			var b batch.Batch
			must(r.t, r.q.In(&b).Complete(m.Receipt(), "paid"))
			must(r.t, r.actor.Apply(ctx, &b))
			return actorstore.ErrPoisoned
		},
	} {
		r := newRig(t, Options{})
		a, err := r.q.Expect(r.enqueue("a", nil))
		must(t, err)
		wantErr(t, what, end(r, r.one(ReceiveOptions{})), actorstore.ErrPoisoned)
		got, err := a.Wait(ctx)
		wantErr(t, "who waits for what was "+what, err, actorstore.ErrPoisoned)
		if got != nil {
			t.Errorf("%s: answered with %x", what, []byte(got))
		}
	}
}

// TestCloseWhileAnswering: a queue that is closed doesn't wait for a sync that hangs, and
// says so.
func TestCloseWhileAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		a, err := r.q.Expect(r.enqueue("a", nil))
		must(t, err)
		m := r.one(ReceiveOptions{})
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync})
		var b batch.Batch
		must(t, r.q.In(&b).Complete(m.Receipt(), "paid"))
		must(t, r.actor.Apply(ctx, &b))
		<-pause.Reached()
		closed := make(chan error, 1)
		go func() { closed <- r.q.Close() }()
		_, err = a.Wait(ctx)
		wantErr(t, "who waits", err, ErrClosed)
		pause.Release()
		must(t, <-closed)
	})
}
