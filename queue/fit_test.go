package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// narrow are limits under which an atomic commit is one sub-batch.
var narrow = batch.Limits{AtomicBatches: 1}

// TestReceiveFits hands out as many messages as one commit takes, when more were asked for,
// and the rest after that.
func TestReceiveFits(t *testing.T) {
	for _, atMostOnce := range []bool{false, true} {
		t.Run(fmt.Sprint("at most once ", atMostOnce), func(t *testing.T) {
			r := newRigWith(t, Options{MaxMessages: -1}, narrow)
			const n = 300
			for range n {
				r.enqueue("small", 1)
			}
			var got []ID
			for len(got) < n {
				msgs := r.try(ReceiveOptions{Count: 200, AtMostOnce: atMostOnce})
				if len(msgs) < min(50, n-len(got)) {
					t.Fatalf("got %d messages after %d", len(msgs), len(got))
				}
				got = append(got, ids(msgs)...)
			}
			for i, id := range got {
				if id != ID(i+1) {
					t.Fatalf("message %s is number %d", id, i+1)
				}
			}
			r.verify("in the end")
		})
	}
}

// TestReceiveFitsBytes is TestReceiveFits of messages of which a few fill a commit.
func TestReceiveFitsBytes(t *testing.T) {
	sink := &tally{sums: map[string]int64{}}
	r := newRigWith(t, Options{Env: part.Env{Metrics: sink}}, narrow)
	for range 12 {
		r.enqueue("large", make([]byte, 120<<10))
	}
	wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 12})), 1, 2, 3, 4, 5, 6)
	if len(sink.waits) != 6 || sink.sums["received"] != 6 {
		t.Errorf("waits of %d messages, %d received", len(sink.waits), sink.sums["received"])
	}
	r.verify("some received")

	// One that doesn't fit by itself is an error, and stays.
	fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Times: 3})
	_, err := r.q.TryReceive(ctx, &ReceiveOptions{Count: 4})
	wantErr(t, "none fits", err, batch.ErrTooLarge)
	if fault.Hits() != 3 {
		t.Errorf("%d attempts, want 4, 2 and 1 messages", fault.Hits())
	}
	wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 6})), 7, 8, 9, 10, 11, 12)
}

// TestDeadLettersFit makes dead letters of more messages than one commit takes.
func TestDeadLettersFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Second}, narrow)
		const n = 20
		for range n {
			r.enqueue("large", make([]byte, 120<<10))
		}
		for range n {
			r.one(ReceiveOptions{})
		}
		later(time.Second)
		synctest.Wait()
		if s := r.q.Stats(); len(s.Names) != 1 || s.Names[0].Name != "large.dlq" || s.Names[0].Ready != n {
			t.Errorf("stats %+v", s)
		}
		r.verify("in the end")
	})
}

// TestDeadLetterNeverFits: a message for which no commit has room as a dead letter is set
// aside and reported, once, and keeps none behind it waiting. A larger store finds it again.
func TestDeadLetterNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Second}, narrow)
		large := r.enqueue("a", make([]byte, 120<<10))
		for range 3 {
			r.enqueue("a", "small")
		}
		if n := len(r.try(ReceiveOptions{Count: 9})); n != 4 {
			t.Fatalf("received %d", n)
		}
		r.limits.Payload = 100 << 10
		r.reopen()
		answer, err := r.q.Expect(large)
		must(t, err)
		later(time.Second)
		synctest.Wait()
		check := func(what string) {
			t.Helper()
			s, bad := r.q.Stats(), r.q.Quarantined()
			if len(s.Names) != 1 || s.Names[0].Name != "a.dlq" || s.Names[0].Ready != 3 || s.Quarantined != 1 {
				t.Errorf("%s: stats %+v", what, s)
			}
			if len(bad) != 1 || bad[0].ID != large || bad[0].Size < 120<<10 || !errors.Is(bad[0].Err, batch.ErrTooLarge) {
				t.Errorf("%s: set aside %v", what, bad)
			}
			wantIDs(t, what+", of the name", ids(r.try(ReceiveOptions{Names: []string{"a"}})))
		}
		check("set aside")
		_, err = answer.Wait(ctx)
		wantErr(t, "who waits", err, ErrNoAnswer)
		wantErr(t, "who waits", err, batch.ErrTooLarge)
		c := r.counted(func() { later(time.Hour); synctest.Wait() })
		if c.Commits+c.Scans+c.Gets != 0 {
			t.Errorf("asked of the engine in an hour: %+v", c)
		}
		r.reopen()
		synctest.Wait()
		check("opened again")
		r.limits.Payload = 0
		r.reopen()
		synctest.Wait()
		if s := r.q.Stats(); len(s.Names) != 1 || s.Names[0].Ready != 4 || s.Quarantined != 0 {
			t.Errorf("in a larger store: stats %+v", s)
		}
		r.verify("in a larger store")
	})
}

// TestSizeOfCommit: what may be enqueued becomes a dead letter, also if one commit takes
// less than a value may have.
func TestSizeOfCommit(t *testing.T) {
	limits := narrow
	limits.Payload = 3000
	r := newRigWith(t, Options{MaxReceive: 1}, limits)
	limit := r.q.opts.MaxMessageBytes
	if limit >= 3000 || limit < 2900 {
		t.Errorf("limit %d", limit)
	}
	body := Raw(cborBytes(limit - (&record{name: "a"}).size() - 1)) // the length takes two bytes
	r.enqueue("a", body)
	must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, nil))
	wantIDs(t, "the dead letter", ids(r.try(ReceiveOptions{Names: []string{"a.dlq"}})), 2)
	r.verify("in the end")
	_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: Raw(cborBytes(len(body) + 1))})
	wantErr(t, "a byte more", err, ErrTooLarge)
}
