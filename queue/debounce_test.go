package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// save enqueues the message that a document is to be saved.
func (r *rig) save(body string, o Send) ID {
	r.t.Helper()
	if o.Name, o.Body = "save", body; o.Debounce == nil {
		o.Debounce = &Debounce{Key: "doc/7", Max: 10 * time.Second}
	}
	id, err := r.q.Enqueue(ctx, o)
	must(r.t, err)
	return id
}

// TestDebounce: a newer message takes the place of one that waits, also after a restart, until that is handed out; it is hidden anew, and not for
// longer than Max says.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxMessages: 2})
		first := time.Now()
		id := r.save("1", Send{Delay: 4 * time.Second, From: "a/b"})
		later(3 * time.Second)
		if again := r.save("2", Send{Delay: 4 * time.Second, Priority: 3}); again != id {
			t.Errorf("got %s, want %s", again, id)
		}
		r.enqueue("other", nil) // the queue is full
		r.verify("replaced")
		r.reopen()
		later(3 * time.Second)
		r.wantCost("a replacement", 1, 0, func() { r.save("3", Send{Delay: 9 * time.Second, Priority: -2}) })
		r.verify("replaced again")
		c := r.receiving(ReceiveOptions{Names: []string{"save"}})
		r.wantGot("at the latest", c, 4*time.Second, id)
		r.verify("leased")
		if rec := r.record(id); string(rec.body) != "a3" || rec.priority != -2 || rec.debounce != (debounceKey{}) || rec.created != first.UnixMilli() {
			t.Errorf("leased is %+v", rec)
		}
		// It was handed out: the next one is another message.
		must(t, r.q.commit(ctx, func(tx *Tx) error { return tx.Delete(2) }))
		next := r.save("4", Send{})
		if next == id {
			t.Errorf("%s takes the place of a message that is leased", next)
		}
		if again := r.save("5", Send{}); again != next {
			t.Errorf("got %s, want %s", again, next)
		}
		later(time.Hour) // the lease is over
		msgs := r.try(ReceiveOptions{Names: []string{"save"}, Count: 9, AtMostOnce: true})
		if wantIDs(t, "in the end", ids(msgs), next, id); text(t, msgs[0].Body) != "5" || text(t, msgs[1].Body) != "3" || msgs[1].From != "" {
			t.Errorf("received %+v, %+v", msgs[0], msgs[1])
		}
		r.verify("in the end")
	})
}

// TestDebounceKeys: what has another name or key is another message; without a Max each message hides the first one anew.
func TestDebounceKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		one := &Debounce{Key: "1"}
		for i, s := range []Send{{Name: "a", Debounce: one}, {Name: "b", Debounce: one}, {Name: "a", Debounce: &Debounce{Key: "2"}}, {Name: "a"}, {Name: "a", Key: "1"}} {
			id, err := r.q.Enqueue(ctx, s)
			if must(t, err); id != ID(i+1) {
				t.Errorf("%+v is message %s", s, id)
			}
		}
		for range 9 {
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Debounce: one, Delay: time.Minute})
			must(t, err)
			later(50 * time.Second)
		}
		r.wantGot("those without a delay", r.receiving(ReceiveOptions{Count: 9}), 0, 2, 3, 4, 5)
		r.wantGot("the last", r.receiving(ReceiveOptions{Names: []string{"a"}, AtMostOnce: true}), 10*time.Second, 1)
		// A sender's key that is used stands for the message that was replaced.
		id, err := r.q.Enqueue(ctx, Send{Name: "a", Debounce: one})
		must(t, err)
		for range 2 {
			again, err := r.q.Enqueue(ctx, Send{Name: "a", Debounce: one, Key: "k"})
			if must(t, err); again != id {
				t.Errorf("got %s, want %s", again, id)
			}
		}
		r.verify("in the end")
	})
}

// TestDebounceStaged: sends in one batch are one message; Enqueue waits for the batch that has the message.
func TestDebounceStaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		send := func(body string) Send { return Send{Name: "save", Body: body, Debounce: &Debounce{Key: "k"}} }
		ids1, err := r.q.EnqueueAll(ctx, []Send{send("1"), send("2"), send("3")})
		must(t, err)
		wantIDs(t, "in one batch", ids1, 1, 1, 1)
		if s := r.q.Stats(); s.Messages != 1 || s.Next != 2 {
			t.Errorf("stats %+v", s)
		}
		var b, other batch.Batch
		_, err = r.q.In(&b).Enqueue(send("4"))
		must(t, err)
		_, err = r.q.In(&other).Enqueue(send("5"))
		wantErr(t, "in another batch", err, ErrBusy)
		wantIDs(t, "received by its own batch", ids(r.stageReceive(&b, ReceiveOptions{})))
		done := make(chan ID)
		go func() { done <- r.save("6", Send{Debounce: &Debounce{Key: "k"}}) }()
		synctest.Wait()
		b.Abort(nil)
		if id := <-done; id != 1 {
			t.Errorf("enqueued %s", id)
		}
		other.Abort(nil)
		r.verify("given up")
		// Received and enqueued by one batch: the second is another message, which the batch may receive as well.
		b = batch.Batch{}
		got := r.stageReceive(&b, ReceiveOptions{})
		if wantIDs(t, "received", ids(got), 1); text(t, got[0].Body) != "6" {
			t.Errorf("received %+v", got[0])
		}
		r.stageEnqueue(&b, send("7"))
		r.stageEnqueue(&b, send("8"))
		wantIDs(t, "its own", ids(r.stageReceive(&b, ReceiveOptions{AtMostOnce: true})), 2)
		r.stageEnqueue(&b, send("9"))
		must(t, r.actor.Commit(ctx, &b))
		r.verify("landed")
		r.reopen()
		if id := r.save("10", Send{Debounce: &Debounce{Key: "k"}}); id != 3 || text(t, r.record(3).body) != "10" {
			t.Errorf("after a restart %s is replaced", id)
		}
		// A message that a batch replaces and then removes is gone for it.
		b = batch.Batch{}
		r.stageEnqueue(&b, send("11"))
		must(t, r.q.In(&b).Delete(3))
		if id := r.stageEnqueue(&b, send("12")); id != 4 {
			t.Errorf("a removed message is replaced: %s", id)
		}
		must(t, r.actor.Commit(ctx, &b))
		r.verify("in the end")
	})
}

// TestDebounceCrash: a replacement whose commit is lost leaves the message as it was, and one that has landed is there.
func TestDebounceCrash(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		r := newRig(t, Options{})
		r.save("old", Send{})
		r.engine.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
		if _, err := r.q.Enqueue(ctx, Send{Name: "save", Body: "new", Debounce: &Debounce{Key: "doc/7"}}); err == nil {
			t.Error("a commit without an outcome succeeded")
		}
		r.engine.Heal()
		r.reopen()
		want := map[faultkv.Point]string{faultkv.BeforeCommit: "old", faultkv.AfterApply: "new"}[point]
		if m := r.one(ReceiveOptions{}); m.ID != 1 || text(t, m.Body) != want || r.q.Len() != 1 {
			t.Errorf("received %+v, want %s", m, want)
		}
	}
}

// TestDebounceFull: an actor without room refuses a longer message, and keeps the one that it has.
func TestDebounceFull(t *testing.T) {
	r := newRig(t, Options{})
	r.save("old", Send{})
	r.limits.Storage = r.actor.Used() + 10
	r.reopen()
	_, err := r.q.Enqueue(ctx, Send{Name: "save", Body: make([]byte, 1000), Debounce: &Debounce{Key: "doc/7"}})
	wantErr(t, "a longer message", err, actorstore.ErrQuota)
	r.verify("refused")
	if m := r.one(ReceiveOptions{}); text(t, m.Body) != "old" {
		t.Errorf("received %+v", m)
	}
}

// TestDebounceRefused: what can't be stored is an error, and stores nothing.
func TestDebounceRefused(t *testing.T) {
	r := newRig(t, Options{})
	for _, d := range []Debounce{{}, {Key: "k", Max: -1}} {
		var invalid *InvalidError
		if _, err := r.q.Enqueue(ctx, Send{Debounce: &d}); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, plain := range []bool{true, false} {
		if layout = actorstore.LayoutRivetKit; plain {
			layout = actorstore.LayoutGreenroom
		}
		r := newRig(t, Options{Plain: plain})
		layout = actorstore.LayoutGreenroom
		_, err := r.q.Enqueue(ctx, Send{Debounce: &Debounce{Key: "k"}})
		wantErr(t, fmt.Sprint("plain ", plain), err, ErrPlain)
	}
}
