package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
	r := newRigWith(t, Options{Metrics: sink}, narrow)
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
