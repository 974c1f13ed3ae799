package workflow

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// TestCrowd runs a thousand workflows in a thousand actors of one process, each of which
// steps, sleeps and waits for a message.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 1000
		store, err := actorstore.Open(ctx, memkv.New(), nil)
		must(t, err)
		fn := func(c *Context, in int) (int, error) {
			a, err := Step(c, "a", func(context.Context) (int, error) { return in, nil })
			if err != nil {
				return 0, err
			}
			c.Sleep("pause", time.Duration(in%100)*time.Minute)
			m, err := Receive[int](c, "m")
			if err != nil {
				return 0, err
			}
			return stepIn(c, "b", nil, func(_ context.Context, b *batch.Batch) (int, error) {
				b.Put([]byte("\x04k"), []byte("v"))
				return a + m.Body, nil
			})
		}
		var wg sync.WaitGroup
		queues := make([]*queue.Queue, crowd)
		for i := range crowd {
			a, err := store.Named(ctx, fmt.Sprint("actor ", i), nil)
			must(t, err)
			q, err := queue.Open(ctx, a, nil)
			must(t, err)
			queues[i] = q
			w, err := Open(ctx, a, fn, &Options{Queue: q})
			must(t, err)
			must(t, w.Start(ctx, i))
			wg.Go(func() {
				out, err := w.Live(ctx)
				if err != nil || out != 3*i {
					t.Errorf("workflow %d: %d, %v", i, out, err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				if err := q.Close(); err != nil {
					t.Error(err)
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		later(30 * time.Minute)
		for i, q := range queues {
			_, err := q.Enqueue(ctx, queue.Send{Name: "m", Body: 2 * i})
			must(t, err)
		}
		wg.Wait()
		for f, err := range store.Check(ctx) {
			must(t, err)
			t.Errorf("check: %s", f)
		}
		must(t, store.Close())
	})
}

// TestLongHistory: a workflow with ten thousand entries is opened with one range of the
// engine, and replays with no read at all.
func TestLongHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxEntries: -1})
		fn := func(c *Context, _ int) (int, error) {
			for i := range 10_000 {
				c.SleepUntil(fmt.Sprint(i), time.Time{})
			}
			c.Sleep("pause", time.Hour)
			return 1, nil
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		r.same(w.Workflow)
		r.reopen()
		n := r.counted(func() { w = attach(r, fn) })
		if n.Gets+n.Scans > 4 {
			t.Errorf("opening it reads %+v", n)
		}
		if n := r.counted(func() { status(r, w, Sleeping) }); n.Gets+n.Scans+n.Commits > 0 {
			t.Errorf("replaying it asks %+v", n)
		}
	})
}
