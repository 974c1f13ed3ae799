package conn

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// Everything at once: what is stored in the end is what is in memory.
func TestConcurrent(t *testing.T) {
	r := open(t, Options{})
	const workers, rounds = 8, 40
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				c, err := r.set.Create(info(w*rounds + i))
				if err != nil {
					t.Error(err)
					return
				}
				var b batch.Batch
				b.Put(actorstore.UserKey([]byte{byte(w)}), []byte{byte(i)})
				_, received := c.Received(1, 100_000)
				_, sent := c.Sent()
				errs := []error{
					c.SetState(i), c.Subscribe(fmt.Sprint(w)), received, sent,
					Mutate(c, func(n *int) error { *n++; return nil }), r.set.Stage(&b),
				}
				switch i % 4 {
				case 0:
					errs = append(errs, r.set.Disconnect(ctx, c, ""), r.actor.Commit(ctx, &b))
				case 1:
					errs = append(errs, r.set.StageDisconnect(&b, c), r.actor.Commit(ctx, &b))
				case 2:
					errs = append(errs, r.set.Save(ctx))
					b.Abort(nil)
				default:
					errs = append(errs, r.actor.Apply(ctx, &b))
				}
				for _, c := range r.set.Subscribers(nil, "0") {
					_, _ = c.Indices()
					if c.ID() == "" || c.Path() == "" || c.Record().ID != c.ID() || len(c.Parameters()) == 0 {
						t.Error("a connection without what it began with")
					}
				}
				r.set.Conns()
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	r.save()
	r.same()
	if n := r.set.Len(); n != workers*rounds/2 {
		t.Errorf("%d connections, want %d", n, workers*rounds/2)
	}
	r.healthy()
}

// Many who mutate one state at once lose nothing.
func TestMutateTogether(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := Mutate(c, func(n *int) error { *n++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var n int
	if err := c.DecodeState(&n); err != nil || n != 400 {
		t.Errorf("state %d, %v, want 400", n, err)
	}
}

// A message costs no memory: there are many, and each moves two numbers.
func TestMessageAllocations(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	var index Index
	if n := testing.AllocsPerRun(100, func() {
		index++
		if _, err := c.Received(index, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sent(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a message in and one out, want 0", n)
	}
	rec, dst := c.Record(), make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() { dst = rec.Append(dst[:0]) }); n != 0 {
		t.Errorf("%v allocations to encode a record, want 0", n)
	}
}

// What a save costs beside the commit: in memory, of 100 connections.
func BenchmarkSave(b *testing.B) {
	r := open(b, quiet())
	var conns []*Conn
	for i := range 100 {
		conns = append(conns, r.create(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range conns {
			if _, err := c.Sent(); err != nil {
				b.Fatal(err)
			}
		}
		r.save()
	}
}
