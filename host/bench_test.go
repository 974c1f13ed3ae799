package host

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/queue"
)

// benchHost opens a host on Pebble, with a type whose actions write to the state, to a
// user key, and to a table.
func benchHost(b *testing.B, opts Options) *Host {
	engine, err := pebblekv.Open(b.TempDir(), nil)
	must(b, err)
	opts.Logger = quiet
	h, err := Open(b.Context(), engine, []*Type{thing(
		add,
		NewAction("put", func(c *Context, n int) (int, error) {
			return n, c.Put([]byte("key"), []byte("value"))
		}),
		NewAction("insert", func(c *Context, n int) (int, error) {
			tx, err := c.SQL()
			if err != nil {
				return 0, err
			}
			_, err = tx.ExecContext(c, "create table if not exists t(x); insert into t values(1)")
			return n, err
		}),
		NewAction("nothing", func(_ *Context, n int) (int, error) { return n, nil }),
	)}, &opts)
	must(b, err)
	b.Cleanup(func() {
		must(b, h.Close(context.Background()))
		must(b, engine.Close())
	})
	return h
}

// BenchmarkTurn measures turns: of one caller, which waits for each; of many callers of
// one actor, whose waits are shared; and of many actors.
func BenchmarkTurn(b *testing.B) {
	for _, action := range []string{"nothing", "add", "put", "insert"} {
		for _, c := range []struct{ callers, actors int }{{1, 1}, {50, 1}, {50, 50}} {
			b.Run(fmt.Sprintf("%s/callers=%d/actors=%d", action, c.callers, c.actors), func(b *testing.B) {
				h := benchHost(b, Options{})
				var next atomic.Int64
				b.SetParallelism((c.callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					a := Address{"thing", fmt.Sprint(int(next.Add(1)) % c.actors)}
					for pb.Next() {
						if _, err := invoke[int](b.Context(), h, a, action, 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkActors measures what waking and sleeping takes, and what is left in memory of
// an actor that is awake, and of one that sleeps.
func BenchmarkActors(b *testing.B) {
	for _, action := range []string{"add", "insert"} {
		b.Run(action, func(b *testing.B) {
			h := benchHost(b, Options{MaxAwake: b.N + 1, IdleTimeout: time.Hour})
			before := liveHeap()
			for i := range b.N {
				if _, err := invoke[int](b.Context(), h, Address{"thing", fmt.Sprint(i)}, action, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "B/awake")
			h.mu.Lock()
			for h.idle.Len() > 0 {
				h.idle.Front().Value.(*stay).rest()
			}
			for len(h.lives) > 0 {
				h.changed = make(chan struct{})
				gone := h.changed
				h.mu.Unlock()
				<-gone
				h.mu.Lock()
			}
			h.mu.Unlock()
			b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "B/asleep")
		})
	}
}

// liveHeap is what is in use after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMessage measures messages that are sent and handled in a turn, of 16 actors: without limits, and under limits that hold none up.
func BenchmarkMessage(b *testing.B) {
	for name, all := range map[string][]*Limit{
		"none":        nil,
		"concurrency": {{Name: "c", Concurrency: 64}},
		"rate":        {{Name: "r", Rate: 1e6, Burst: 1e6}},
	} {
		b.Run(name, func(b *testing.B) {
			engine, err := pebblekv.Open(b.TempDir(), nil)
			must(b, err)
			const actors = 16
			var done [actors]chan struct{}
			for i := range done {
				done[i] = make(chan struct{}, 1)
			}
			kind := &Type{Name: "thing", Limits: all, Message: func(c *Context, _ *greenroom.Message) error {
				i, err := strconv.Atoi(c.Address().Key)
				done[i] <- struct{}{}
				return err
			}}
			h, err := Open(b.Context(), engine, []*Type{kind}, &Options{Logger: quiet})
			must(b, err)
			var next atomic.Int64
			b.SetParallelism(actors / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := int(next.Add(1)) % actors
				for pb.Next() {
					if _, err := h.Send(b.Context(), Address{"thing", strconv.Itoa(i)}, queue.Send{Name: "m"}); err != nil {
						b.Error(err)
						return
					}
					<-done[i]
				}
			})
			b.StopTimer()
			must(b, h.Close(context.Background()))
			must(b, engine.Close())
		})
	}
}
