package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// TestPermanent: a message that is given back with a permanent error is a dead letter at once, with that error; a dead letter that is
// given back with one stays what it is.
func TestPermanent(t *testing.T) {
	for _, tt := range []struct {
		what, name, want string
		opts             Options
		why              error
	}{
		{"marked", "a", "a.dlq", Options{}, Permanent(errSoldOut)},
		{"wrapped", "a", "a.dlq", Options{MaxReceive: 3}, fmt.Errorf("sell: %w", Permanent(errSoldOut))},
		{"plain", "a", "a.dlq", Options{Plain: true}, Permanent(errSoldOut)},
		{"not marked", "a", "a", Options{MaxReceive: 3}, errSoldOut},
		{"a dead letter", "a.dlq", "a.dlq", Options{}, Permanent(errSoldOut)},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.opts)
				start := time.Now()
				id := r.enqueue(tt.name, "x")
				must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, tt.why))
				synctest.Wait()
				m := r.listed()
				if m.Name != tt.want || (m.ID == id) != (tt.name == tt.want) {
					t.Errorf("it is %+v", m)
				}
				if m.Deliveries != 1 && !tt.opts.Plain {
					t.Errorf("it was handed out %d times", m.Deliveries)
				}
				if !tt.opts.Plain {
					wantFailure(t, "the failure", m.Failure, start, "sold_out "+tt.why.Error(), 0)
				}
				r.verify("in the end")
			})
		})
	}
	if err := Permanent(nil); err != nil {
		t.Errorf("of nil it is %v", err)
	}
}

// TestPermanentFull: while the actor has no room for the dead letter no receiver gets the message, also after attempts to store it, and
// with the room the dead letter comes.
func TestPermanentFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{}, batch.Limits{Storage: 1000})
		r.enqueue("a", "x")
		r.full()
		must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, Permanent(errors.New("why"))))
		for range 3 {
			synctest.Wait()
			wantIDs(t, "without room", ids(r.try(ReceiveOptions{})))
			if s := r.q.Stats().Names; len(s) != 1 || s[0].Dying != 1 {
				t.Fatalf("stats %+v", s)
			}
			later(maxBackoff)
		}
		r.fullBut(200)
		later(maxBackoff)
		synctest.Wait()
		if m := r.listed(); m.Name != "a.dlq" || m.Failure.Text != "why" {
			t.Errorf("it is %+v", m)
		}
		r.verify("in the end")
	})
}
