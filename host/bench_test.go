package host

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/metrics"
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

// idleClosed counts the connections to databases that were closed since they were idle.
type idleClosed chan struct{}

func (c idleClosed) Add(of *metrics.Metric, n int64) {
	if of.Name == "vfs_connections_idle_closed" {
		for range n {
			c <- struct{}{}
		}
	}
}

func (idleClosed) Observe(*metrics.Metric, time.Duration) {}

// BenchmarkActors measures what waking and sleeping takes, and what is left in memory of
// an actor that is awake, its database idle, and of one that sleeps. Resident memory is measured on Linux.
func BenchmarkActors(b *testing.B) {
	for _, action := range []string{"add", "insert"} {
		b.Run(action, func(b *testing.B) {
			closed := make(idleClosed, 2*b.N)
			h := benchHost(b, Options{MaxAwake: b.N + 1, IdleTimeout: time.Hour, Metrics: closed})
			before, resident := liveHeap(), residentNow()
			for i := range b.N {
				if _, err := invoke[int](b.Context(), h, Address{"thing", fmt.Sprint(i)}, action, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if action == "insert" {
				for range b.N {
					<-closed
				}
			}
			b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "B/awake")
			b.ReportMetric((residentNow()-resident)/float64(b.N), "resident-B/awake")
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

// residentNow is the resident memory of the process in bytes, without what Go's heap is about to give back; 0 where the system doesn't say.
//
// https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
func residentNow() float64 {
	debug.FreeOSMemory()
	b, _ := os.ReadFile("/proc/self/statm")
	var size, pages float64
	_, _ = fmt.Sscan(string(b), &size, &pages)
	return pages * float64(os.Getpagesize())
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
