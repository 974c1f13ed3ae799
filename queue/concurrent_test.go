package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestConcurrent has many do everything at once, some of it in batches that are given up,
// and counts: each message is completed once, and by its holder.
func TestConcurrent(t *testing.T) {
	r := newRig(t, Options{MaxMessages: -1, Visibility: time.Hour, MemoryBytes: 10_000})
	const senders, receivers, each = 4, 6, 200
	var mu sync.Mutex
	left, completed := senders*each, map[string]int{}
	// Receivers go home when all is done, however long nothing comes before that.
	over, stop := context.WithCancel(ctx)
	defer stop()
	var sent, done sync.WaitGroup
	for s := range senders {
		sent.Go(func() {
			for i := range each {
				if _, err := r.q.Enqueue(ctx, Send{Name: fmt.Sprint("name ", i%3), Body: fmt.Sprint(s, " ", i), Key: fmt.Sprint(s, " ", i/2*2, i%2)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range receivers {
		done.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for {
				msgs, err := r.q.Receive(over, &ReceiveOptions{Count: 1 + rng.IntN(3), Timeout: 5 * time.Minute})
				if err != nil || len(msgs) == 0 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("nothing came: %v", err)
					}
					return
				}
				for _, m := range msgs {
					if done, err := r.handle(rng, m); err != nil {
						t.Error(err)
					} else if done {
						mu.Lock()
						completed[text(t, m.Body)]++
						if left--; left == 0 {
							stop()
						}
						mu.Unlock()
					}
				}
			}
		})
	}
	sent.Wait()
	done.Wait()
	if len(completed) != senders*each {
		t.Errorf("%d messages were completed, want %d", len(completed), senders*each)
	}
	for body, n := range completed {
		if n != 1 {
			t.Errorf("message %q was completed %d times", body, n)
		}
	}
	r.verify("in the end")
}

// handle does something with a message, and says whether that completed it.
func (r *rig) handle(rng *rand.Rand, m *Message) (done bool, err error) {
	switch rng.IntN(5) {
	case 0:
		return false, m.Nack(ctx, 0, nil)
	case 1:
		if err := r.q.Extend(ctx, m.Receipt(), time.Hour); err != nil {
			return false, err
		}
	case 2: // staged, and given up
		var b batch.Batch
		if err := r.q.In(&b).Complete(m.Receipt(), nil); err != nil {
			return false, err
		}
		if _, err := r.q.In(&b).Enqueue(Send{Name: "never"}); err != nil {
			return false, err
		}
		b.Abort(nil)
	}
	return true, m.Complete(ctx, nil)
}

// TestExactlyOnceMany: of many workers at once, some of which fail, each message is done by
// one, once.
func TestExactlyOnceMany(t *testing.T) {
	const workers, messages = 4, 40
	w := newWorker(t, engines.NewTape(), batch.Limits{})
	defer w.close()
	w.exec("create table done(id integer primary key, worker)")
	for n := range messages {
		_, err := w.q.Enqueue(ctx, Send{Name: "job", Body: n})
		must(t, err)
	}
	changed := errors.New("changed my mind")
	work := func(worker int) (more bool, err error) {
		err = w.db.Update(ctx, func(tx *vfs.Tx) error {
			msgs, err := w.q.In(tx.Batch()).Receive(ctx, nil)
			if more = len(msgs) == 1; err != nil || !more {
				return err
			}
			id := msgs[0].ID
			if _, err := tx.ExecContext(ctx, "insert into done values(?, ?)", int64(id), worker); err != nil {
				return err
			}
			if err := w.q.In(tx.Batch()).Complete(msgs[0].Receipt(), nil); err != nil {
				return err
			}
			if (int(id)+worker)%workers == 0 { // one of them can't do this message
				return changed
			}
			return nil
		})
		if errors.Is(err, changed) {
			err = nil
		}
		return more, err
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			// The last one at work may be the one that can't do what is left.
			for range 2 * messages {
				more, err := work(worker)
				if err != nil {
					t.Errorf("worker %d: %v", worker, err)
				}
				if err != nil || !more {
					return
				}
			}
		})
	}
	all.Wait()
	// All have gone home; what came back later another one must do.
	for worker := 0; w.q.Len() > 0; worker++ {
		_, err := work(worker % workers)
		must(t, err)
	}
	done := 0
	must(t, w.db.QueryRowContext(ctx, "select count(*) from done").Scan(&done))
	if done != messages {
		t.Errorf("%d messages are done, of %d", done, messages)
	}
	var wrong int
	must(t, w.db.QueryRowContext(ctx, "select count(*) from done where (id + worker) % ? = 0", workers).Scan(&wrong))
	if wrong != 0 {
		t.Errorf("%d are done by who gave them up", wrong)
	}
}
