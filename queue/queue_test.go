package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestOrder hands messages out by id, whatever their names, and skips other names.
func TestOrder(t *testing.T) {
	r := newRig(t, Options{})
	for _, name := range []string{"a", "b", "a", "c", "b", ""} {
		r.enqueue(name, name)
	}
	wantIDs(t, "b and c", ids(r.try(ReceiveOptions{Names: []string{"c", "b", "nobody"}, Count: 2})), 2, 4)
	wantIDs(t, "the empty name", ids(r.try(ReceiveOptions{Names: []string{""}, Count: 9})), 6)
	wantIDs(t, "any", ids(r.try(ReceiveOptions{Count: 9})), 1, 3, 5)
	wantIDs(t, "none is left", ids(r.try(ReceiveOptions{})))
	r.verify("in the end")
}

// TestBodies stores what JavaScript writes, and gives it back byte by byte.
func TestBodies(t *testing.T) {
	r := newRig(t, Options{})
	bodies := []any{nil, "text", 7, map[string]any{"hello": "world"}, []byte{0, 1}, Raw(nil), Raw{0xb9, 0, 0}, cbor.Undefined{}}
	want := []string{"f6", "6474657874", "07", "b900016568656c6c6f65776f726c64", "420001", "f7", "b90000", "f7"}
	for i, body := range bodies {
		r.enqueue("a", body)
		m := r.one(ReceiveOptions{AtMostOnce: true})
		if got := fmt.Sprintf("%x", []byte(m.Body)); got != want[i] || m.Name != "a" || !m.Until.IsZero() || m.Deliveries != 1 {
			t.Errorf("%v: got %s, want %s; message %+v", body, got, want[i], m)
		}
	}
	for _, c := range []struct {
		body any
		path string
	}{
		{math.NaN(), ""}, {map[string]any{"a": []any{1, math.Inf(1)}}, "a[1]"}, {func() {}, ""}, {make(chan int), ""},
		{Raw{0xff}, ""}, {Raw{1, 2}, ""},
	} {
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: c.body})
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) || invalid.Path != c.path || Code(err) != "message_invalid" {
			t.Errorf("%T: got %v, path %q", c.body, err, c.path)
		}
	}
	_, err := r.q.Enqueue(ctx, Send{Name: "\xff"})
	wantErr(t, "a name that is no text", err, ErrInvalid)
	_, err = r.q.Enqueue(ctx, Send{Delay: -1})
	wantErr(t, "a negative delay", err, ErrInvalid)
	if n := r.q.Len(); n != 0 {
		t.Errorf("%d messages are there", n)
	}
	r.verify("in the end")
}

// TestFirstRecord writes the very bytes of a message that never was received.
func TestFirstRecord(t *testing.T) {
	r := newRig(t, Options{})
	id := r.enqueue("a", nil)
	rec := r.record(id)
	want := record{name: "a", body: []byte{0xf6}, created: rec.created}
	value, err := r.actor.Get(ctx, appendMessageKey(nil, 1), nil)
	must(t, err)
	if !bytes.Equal(value, want.encode()) || id != 1 {
		t.Errorf("message %s is %x", id, value)
	}
	meta, err := r.actor.Get(ctx, metadataKey(), nil)
	must(t, err)
	if got := fmt.Sprintf("%x", meta); got != "0400020000000000000001000000" {
		t.Errorf("the metadata are %s", got)
	}
}

// TestFull refuses a message too many with the words of the reference, counts what is
// staged, and lets dead letters in.
func TestFull(t *testing.T) {
	r := newRig(t, Options{MaxMessages: 2, MaxReceive: 1})
	r.enqueue("a", nil)
	var b batch.Batch
	_, err := r.q.StageEnqueue(&b, Send{Name: "a"})
	must(t, err)
	_, err = r.q.Enqueue(ctx, Send{Name: "a"})
	var full *FullError
	if !errors.As(err, &full) || full.Limit != 2 || full.Error() != "Queue is full. Limit is 2 messages." || Code(err) != "full" {
		t.Errorf("got %v", err)
	}
	b.Abort(nil)
	_, err = r.q.EnqueueAll(ctx, []Send{{Name: "a"}, {Name: "a"}})
	wantErr(t, "two where one has room", err, ErrFull)
	r.verify("after refusals")
	r.enqueue("a", nil)
	m := r.one(ReceiveOptions{})
	must(t, m.Nack(ctx, 0))
	if s := r.q.Stats(); s.Messages != 2 || s.Names[1].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
	r.verify("in the end")
	open := newRig(t, Options{MaxMessages: -1})
	_, err = open.q.EnqueueAll(ctx, make([]Send, DefaultMaxMessages+1))
	must(t, err)
}

// TestSize holds each message against the limit before anything is written, and leaves
// room for what a lease and a dead letter's name add.
func TestSize(t *testing.T) {
	r := newRigWith(t, Options{MaxReceive: 1}, batch.Limits{ValueSize: 4096})
	limit := r.q.opts.MaxMessageBytes
	if want := r.actor.Limits().ValueSize - leaseRoom - len(".dlq") - 1; limit != want {
		t.Fatalf("limit %d, want %d", limit, want)
	}
	for n := limit - 40; n < limit+10; n++ {
		body := Raw(cborBytes(n))
		size := (&record{name: "a", body: body}).size()
		c := r.counted(func() {
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: body})
			var se *SizeError
			switch {
			case size <= limit && err != nil:
				t.Errorf("%d bytes, limit %d: %v", size, limit, err)
			case size > limit && (!errors.As(err, &se) || se.Size != size || se.Limit != limit || Code(err) != "message_too_large"):
				t.Errorf("%d bytes, limit %d: %v", size, limit, err)
			}
		})
		if size > limit && c.Commits != 0 {
			t.Errorf("%d commits for a message that is too large", c.Commits)
		}
	}
	// All that fit can be leased, given back, and laid aside.
	for r.q.Stats().Names[0].Name == "a" && len(r.q.Stats().Names) >= 1 && r.q.Stats().Names[0].Ready > 0 {
		m := r.one(ReceiveOptions{Names: []string{"a"}})
		if !r.record(m.ID).inFlight.value {
			t.Fatalf("the lease of message %s is not stored", m.ID)
		}
		must(t, m.Nack(ctx, 0))
	}
	if s := r.q.Stats(); len(s.Names) != 1 || s.Names[0].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
	r.verify("in the end")
}

// cborBytes returns a byte string of CBOR that is n bytes long.
func cborBytes(n int) []byte {
	return append([]byte{0x59, byte((n - 3) >> 8), byte(n - 3)}, make([]byte, n-3)...)
}

func TestOptions(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.q.Close())
	for _, o := range []Options{
		{MaxMessageBytes: 1 << 20}, // what the reference allows, and no store takes
		{MaxMessageBytes: -1}, {Visibility: time.Microsecond}, {MaxReceive: -1}, {KeyWindow: -1},
		{MaxKeys: actorstore.MaxNotes + 1}, {MaxKeys: -1},
	} {
		if q, err := Open(ctx, r.actor, &o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: got %v, %v", o, q, err)
		}
	}
	r.open2()
	if _, err := Open(ctx, r.actor, nil); !errors.Is(err, actorstore.ErrKept) {
		t.Errorf("a second queue: %v", err)
	}
	for _, o := range []*ReceiveOptions{{Count: -1}, {Timeout: -1}, {Visibility: 1}} {
		_, err := r.q.Receive(ctx, o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
		_, err = r.q.TryReceive(ctx, o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
		_, err = r.q.StageReceive(ctx, new(batch.Batch), o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
	}
}

// open2 opens the queue of an actor that is open.
func (r *rig) open2() {
	r.t.Helper()
	q, err := Open(ctx, r.actor, &r.opts)
	must(r.t, err)
	r.q = q
}

// TestNames refuses names that nobody has declared, instead of losing their messages.
func TestNames(t *testing.T) {
	r := newRig(t, Options{Names: []string{"a"}, MaxReceive: 1})
	_, err := r.q.Enqueue(ctx, Send{Name: "b"})
	wantErr(t, "another name", err, ErrUnknownName)
	r.enqueue("a", nil)
	must(t, r.one(ReceiveOptions{}).Nack(ctx, 0))
	if m := r.one(ReceiveOptions{}); m.Name != "a.dlq" {
		t.Errorf("got %q", m.Name)
	}
}

// TestAtMostOnce removes the message with the commit that hands it out.
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
		must(t, m.Nack(ctx, 2*time.Second))
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
		wantErr(t, "one that isn't there", r.q.Extend(ctx, Receipt{9, 1}, time.Second), ErrGone)
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
		must(t, msgs[0].Nack(ctx, 0))
		must(t, msgs[1].Nack(ctx, time.Minute))
		wantErr(t, "twice", msgs[0].Nack(ctx, 0), ErrLeaseOver)
		wantErr(t, "a negative delay", msgs[0].Nack(ctx, -1), ErrInvalid)
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
			r.wantCost("nack", 1, 0, func() { must(t, msgs[0].Nack(ctx, 0)) })
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
				must(t, msgs[i].Nack(ctx, 0))
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
		_, err = r.q.Receive(stopped, nil) // there is one, and nobody wants it
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
		r.verify("in the end")
	})
}

// TestPingPong has two that wait for each other's messages: the window between a look that
// finds nothing and the waiting is met again and again, and may lose nothing.
func TestPingPong(t *testing.T) {
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
		over, stop := context.WithCancel(ctx)
		stop()
		wantErr(t, "cancelled", r.q.WaitFor(over), context.Canceled)
		go func() { done <- r.q.WaitFor(ctx) }()
		synctest.Wait()
		must(t, r.q.Close())
		wantErr(t, "closed", <-done, ErrClosed)
	})
}

// TestAll yields one message after the other, and none while the one before is open.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for range 4 {
			r.enqueue("a", nil)
		}
		var got []ID
		var last error
		for m, err := range r.q.All(ctx, nil) {
			if last = err; err != nil {
				break
			}
			switch got = append(got, m.ID); len(got) {
			case 1:
				must(t, m.Complete(ctx, nil))
			case 2:
				later(DefaultVisibility) // the lease ends: it is nobody's
			case 3:
				if m.ID != 2 { // and comes again
					t.Errorf("got %s", m.ID)
				}
				must(t, m.Complete(ctx, nil))
			}
		}
		wantIDs(t, "yielded", got, 1, 2, 2, 3)
		if wantErr(t, "the open one", last, ErrPrevious); Code(last) != "previous_message_not_completed" {
			t.Errorf("code %q", Code(last))
		}
		got = nil
		for m, err := range r.q.All(ctx, &ReceiveOptions{AtMostOnce: true, Timeout: time.Second}) {
			must(t, err)
			got = append(got, m.ID)
		}
		wantIDs(t, "with a timeout", got, 4)
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

// TestDelete removes messages in any state, many of them in pieces.
func TestDelete(t *testing.T) {
	// An engine that takes one sub-batch at once: what isn't split doesn't land.
	r := newRigWith(t, Options{MaxMessages: -1}, batch.Limits{AtomicBatches: 1})
	_, err := r.q.EnqueueAll(ctx, make([]Send, 1000))
	wantErr(t, "too many at once", err, batch.ErrTooLarge)
	var all []ID
	for range 10 {
		some, err := r.q.EnqueueAll(ctx, make([]Send, 100))
		must(t, err)
		all = append(all, some...)
	}
	m := r.one(ReceiveOptions{})
	removed, err := r.q.Delete(ctx, 77, m.ID, 5000)
	must(t, err)
	wantIDs(t, "removed", removed, m.ID, 77)
	wantErr(t, "complete", m.Complete(ctx, nil), ErrGone)
	var b batch.Batch
	_, err = r.q.StageReceive(ctx, &b, nil)
	must(t, err)
	_, err = r.q.Delete(ctx, 2)
	wantErr(t, "one that a batch has", err, ErrBusy)
	if n, err := r.q.Purge(ctx, "other"); n != 0 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	c := r.counted(func() {
		if n, err := r.q.Purge(ctx); n != len(all)-3 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
	})
	if most := int64(len(all)/r.q.deletesAtOnce() + 1); c.Commits > most || c.Gets+c.Scans > 0 {
		t.Errorf("%d commits, want at most %d; %d reads", c.Commits, most, c.Gets+c.Scans)
	}
	b.Abort(nil)
	r.verify("in the end")
	if r.q.Len() != 1 {
		t.Errorf("%d messages are left", r.q.Len())
	}
}

// TestFenced tells who waits, and who asks, that the actor has another owner.
func TestFenced(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	other, err := actorstore.Open(ctx, r.engine, nil)
	must(t, err)
	a, err := other.Named(ctx, "lobby", nil)
	must(t, err)
	_, err = r.q.TryReceive(ctx, nil)
	wantErr(t, "receive", err, actorstore.ErrFenced)
	_, err = r.q.Enqueue(ctx, Send{})
	wantErr(t, "enqueue", err, actorstore.ErrFenced)
	wantErr(t, "wait", r.q.WaitFor(ctx), actorstore.ErrFenced)
	_, err = r.q.Delete(ctx, 1)
	wantErr(t, "delete", err, actorstore.ErrFenced)
	_, err = r.q.Expect(1)
	wantErr(t, "expect", err, actorstore.ErrFenced)
	must(t, a.Close())
	must(t, other.Close())
}

// TestFarEngine costs no more where reads cross a network: bodies that don't fit in the
// queue's memory are in the store's.
func TestFarEngine(t *testing.T) {
	for _, engine := range []kv.Engine{farEngine{memkv.New()}, farEngine{sharedEngine{memkv.New()}}} {
		r := newRigOn(t, engine, Options{MemoryBytes: -1}, batch.Limits{})
		r.wantCost("enqueue", 1, 0, func() { r.keyed("a", "k") })
		var m *Message
		r.wantCost("receive", 1, 0, func() { m = r.one(ReceiveOptions{}) })
		r.wantCost("complete", 1, 0, func() { must(t, m.Complete(ctx, nil)) })
		r.wantCost("nothing", 0, 0, func() { r.try(ReceiveOptions{}) })
		r.enqueue("a", "x")
		r.verify("before")
		r.reopen()
		if m := r.one(ReceiveOptions{AtMostOnce: true}); text(t, m.Body) != "x" {
			t.Errorf("got %+v", m)
		}
		r.verify("in the end")
	}
}

func TestClosed(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	var b batch.Batch
	_, err := r.q.StageEnqueue(&b, Send{})
	must(t, err)
	must(t, r.q.Close())
	must(t, r.q.Close())
	for what, err := range map[string]error{
		"commit":   r.actor.Commit(ctx, &b),
		"complete": r.q.Complete(ctx, Receipt{1, 1}, nil),
		"nack":     r.q.Nack(ctx, Receipt{1, 1}, 0),
		"extend":   r.q.Extend(ctx, Receipt{1, 1}, time.Second),
		"wait":     r.q.WaitFor(ctx),
		"delete":   r.q.StageDelete(new(batch.Batch), 1),
	} {
		wantErr(t, what, err, ErrClosed)
	}
	_, err = r.q.Enqueue(ctx, Send{})
	wantErr(t, "enqueue", err, ErrClosed)
	_, err = r.q.Receive(ctx, nil)
	wantErr(t, "receive", err, ErrClosed)
	_, err = r.q.StageReceive(ctx, new(batch.Batch), nil)
	wantErr(t, "stage", err, ErrClosed)
	// What was staged with the old queue can't get an id of the new one.
	r.open2()
	if id := r.enqueue("a", nil); id != 2 {
		t.Errorf("got id %s", id)
	}
	r.verify("in the end")
	must(t, r.q.Close())
	var settled batch.Batch
	settled.Abort(nil)
	r.open2()
	_, err = r.q.StageEnqueue(&settled, Send{})
	wantErr(t, "a settled batch", err, batch.ErrSettled)
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
		must(t, m.Nack(ctx, 0))
		if rec := r.record(2); rec.name != "a.dlq" || rec.deliveries.set || rec.inFlight.set || rec.available.set {
			t.Errorf("the dead letter is %+v", rec)
		}
		m = r.one(ReceiveOptions{})
		r.reopen() // ends the lease
		m = r.one(ReceiveOptions{})
		must(t, m.Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestForeignLarge leases in memory what has no room for the fields of a lease: such a
// message was stored by somebody else.
func TestForeignLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Second}, batch.Limits{ValueSize: 4096})
		limit := r.actor.Limits().ValueSize
		must(t, r.q.Close())
		rec := record{name: "a", body: cborBytes(limit - 50)}
		for rec.size() < limit {
			rec.name += "a"
		}
		r.stored(appendMessageKey(nil, 1), rec.encode())
		r.open2()
		for n := range 3 {
			m := r.one(ReceiveOptions{})
			if m.Deliveries != uint32(n+1) || len(r.try(ReceiveOptions{})) > 0 {
				t.Errorf("got delivery %d, or it was handed out twice", m.Deliveries)
			}
			if n == 1 {
				must(t, m.Nack(ctx, 0))
				continue
			}
			later(time.Second)
			synctest.Wait()
		}
		must(t, r.one(ReceiveOptions{}).Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestStats and what List says of the same.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.enqueue("b", nil)
		later(time.Second)
		for range 3 {
			r.enqueue("a", "x")
		}
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute, Key: "k"})
		must(t, err)
		r.one(ReceiveOptions{Names: []string{"a"}})
		s := r.q.Stats()
		if s.Messages != 5 || s.Next != 6 || s.Keys != 1 || s.Quarantined != 0 || len(s.Names) != 2 {
			t.Fatalf("got %+v", s)
		}
		if a := s.Names[0]; a.Name != "a" || a.Ready != 2 || a.Delayed != 1 || a.Leased != 1 || a.Bytes == 0 || !a.Oldest.Equal(time.Now()) {
			t.Errorf("got %+v", a)
		}
		snap, err := r.actor.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, snap.Close()) }()
		var got []string
		list := func(o *ListOptions) string {
			got = nil
			for m, err := range List(ctx, snap, time.Now(), o) {
				must(t, err)
				got = append(got, fmt.Sprintf("%s:%s:%s:%d", m.ID, m.Name, m.State, m.Deliveries))
			}
			return strings.Join(got, " ")
		}
		if got, want := list(nil), "1:b:ready:0 2:a:leased:1 3:a:ready:0 4:a:ready:0 5:a:delayed:0"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := list(&ListOptions{Names: []string{"a"}, After: 2, Limit: 2}); got != "3:a:ready:0 4:a:ready:0" {
			t.Errorf("got %q", got)
		}
		later(time.Hour)
		if list(nil); slices.ContainsFunc(got, func(s string) bool { return !strings.Contains(s, "ready") }) {
			t.Errorf("an hour later: %q", got)
		}
	})
}
