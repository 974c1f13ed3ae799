package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

func (r *rig) keyed(name, key string) ID {
	r.t.Helper()
	id, err := r.q.Enqueue(ctx, Send{Name: name, Key: key})
	must(r.t, err)
	return id
}

// TestKeys takes a message once, whatever becomes of it, within the window, across
// restarts, and for its name alone.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{KeyWindow: time.Minute})
		if a, b, c := r.keyed("a", "k"), r.keyed("a", "k"), r.keyed("b", "k"); a != 1 || b != 1 || c != 2 {
			t.Errorf("ids %s, %s, %s", a, b, c)
		}
		r.one(ReceiveOptions{AtMostOnce: true})
		r.verify("before the restart")
		r.reopen()
		later(time.Minute - time.Millisecond)
		if id := r.keyed("a", "k"); id != 1 {
			t.Errorf("id %s after a restart", id)
		}
		later(time.Millisecond)
		if id := r.keyed("a", "k"); id != 3 {
			t.Errorf("id %s after the window", id)
		}
		if id := r.keyed("a", "k"); id != 3 {
			t.Errorf("id %s in the next window", id)
		}
		r.verify("in the end")
		all, err := r.q.EnqueueAll(ctx, []Send{{Name: "c", Key: "x"}, {Name: "c", Key: "y"}, {Name: "c", Key: "x"}})
		must(t, err)
		wantIDs(t, "in one batch", all, 4, 5, 4)
		r.verify("in the end")
	})
}

// TestKeysForgotten removes the notes of keys that are over, a few at a time, and never
// has more than it may.
func TestKeysForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{KeyWindow: time.Second, MaxKeys: 10, MaxMessages: -1})
		for round := range 5 {
			for i := range 10 {
				r.keyed("a", fmt.Sprint(round, " ", i))
			}
			if n := len(r.q.keys.known); n > 10 {
				t.Errorf("%d keys are known", n)
			}
			if round%2 == 0 {
				r.reopen()
			}
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Key: "one too many"})
			wantErr(t, "one too many", err, ErrKeysFull)
			r.verify("full")
			later(time.Second)
		}
		for range 3 {
			r.keyed("a", "the same, over and over")
			later(time.Second)
		}
		r.keyed("a", "last")
		r.verify("in the end")
		if n := len(r.q.keys.known); n > 2 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// TestKeysFail remembers a key only if the message has landed.
func TestKeysFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{KeyWindow: time.Second})
		for range 3 {
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Key: "k"})
			wantErr(t, "fails", err, batch.ErrTooLarge)
			r.verify("failed")
			first := r.keyed("a", "k")
			if again := r.keyed("a", "k"); again != first || r.q.Len() == 0 {
				t.Errorf("ids %s and %s", first, again)
			}
			r.keyed("a", "other")
			r.verify("landed")
			later(time.Second) // both are over: to be taken anew, or forgotten
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
			_, err = r.q.Enqueue(ctx, Send{Name: "a", Key: "k"})
			wantErr(t, "fails again", err, batch.ErrTooLarge)
			r.verify("failed again")
		}
	})
}

// TestKeysFailForgotten: a key that is over makes room for others, also when a batch that
// didn't land was about to take it anew, or to forget it.
func TestKeysFailForgotten(t *testing.T) {
	for what, stage := range map[string]func(r *rig, b *batch.Batch){
		"by itself":      func(r *rig, b *batch.Batch) { r.stageEnqueue(b, Send{Name: "a", Key: "k"}) },
		"behind another": func(r *rig, b *batch.Batch) { r.stageEnqueue(b, Send{Name: "a", Key: "l"}) },
		"beside another": func(r *rig, b *batch.Batch) {
			r.stageEnqueue(b, Send{Name: "a", Key: "k"})
			r.keyed("a", "l")
			later(time.Second)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{KeyWindow: time.Second, MaxKeys: 2})
			r.keyed("a", "k")
			later(time.Second)
			var b batch.Batch
			stage(r, &b)
			b.Abort(nil)
			r.verify(what)
			r.keyed("a", "1")
			r.keyed("a", "2")
			if _, known := r.q.keys.known[noteKeyOf("a", "k")]; known {
				t.Errorf("%s: the key that is over is still known", what)
			}
			r.verify(what + ", in the end")
		})
	}
}

// TestKeyBusy waits for the batch that is about to use the key.
func TestKeyBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lands := range []bool{true, false} {
			r := newRig(t, Options{})
			var b batch.Batch
			first := r.stageEnqueue(&b, Send{Name: "a", Key: "k"})
			if again := r.stageEnqueue(&b, Send{Name: "a", Key: "k"}); again != first {
				t.Errorf("ids %s and %s in one batch", first, again)
			}
			var other batch.Batch
			_, err := r.q.In(&other).Enqueue(Send{Name: "a", Key: "k"})
			wantErr(t, "in another batch", err, ErrBusy)
			other.Abort(nil)
			got := make(chan ID, 1)
			go func() { got <- r.keyed("a", "k") }()
			synctest.Wait()
			if len(got) > 0 {
				t.Error("it didn't wait")
			}
			if lands {
				must(t, r.actor.Commit(ctx, &b))
			} else {
				b.Abort(errors.New("changed my mind"))
			}
			if id := <-got; id != map[bool]ID{true: 1, false: 2}[lands] || r.q.Len() != 1 {
				t.Errorf("id %s, %d messages", id, r.q.Len())
			}
			r.verify("in the end")
		}
	})
}

// TestKeyOfFullQueue: a caller that sends again is told that the message was sent, though the
// queue is full by then.
func TestKeyOfFullQueue(t *testing.T) {
	r := newRig(t, Options{MaxMessages: 1})
	if a, b := r.keyed("a", "k"), r.keyed("a", "k"); a != b {
		t.Errorf("ids %s and %s", a, b)
	}
	_, err := r.q.Enqueue(ctx, Send{Name: "a", Key: "l"})
	wantErr(t, "another", err, ErrFull)
	r.verify("in the end")
}

// TestKeysFork has a copy of the actor know the keys.
func TestKeysFork(t *testing.T) {
	r := newRig(t, Options{})
	r.keyed("a", "k")
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	id, err := r.store.Fork(ctx, snap, nil)
	must(t, err)
	must(t, snap.Close())
	a, err := r.store.Actor(ctx, id, nil)
	must(t, err)
	q, err := Open(ctx, a, nil)
	must(t, err)
	if got, err := q.Enqueue(ctx, Send{Name: "a", Key: "k"}); got != 1 || err != nil || q.Len() != 1 {
		t.Errorf("got %s, %v", got, err)
	}
	must(t, q.Close())
	must(t, a.Close())
}
