package host

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestCrowd has many more actors than may be awake come and go on Pebble, in real time,
// with events that are due at once and others that never are.
func TestCrowd(t *testing.T) {
	const actors, callers, calls = 200, 16, 60
	rung := make(chan bool, callers*calls)
	kind := thing(
		add,
		NewAction("plan", func(c *Context, n int) (string, error) {
			return c.After(time.Duration(n)*time.Millisecond, "ring", n)
		}),
		NewAction("ring", func(c *Context, n int) (int, error) {
			c.AfterCommit(func() { rung <- true })
			return 0, greenroom.Mutate(c, func(t *int) error { *t += n; return nil })
		}),
	)
	engine, err := pebblekv.Open(t.TempDir(), nil)
	must(t, err)
	before := runtime.NumGoroutine()
	h, err := Open(t.Context(), engine, []*Type{kind}, &Options{MaxAwake: 20, IdleTimeout: time.Millisecond, Logger: quiet})
	must(t, err)
	var planned atomic.Int32
	var total atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				a, n := Address{"thing", fmt.Sprint(rand.IntN(actors))}, rand.IntN(30)
				action := "add"
				if n%3 == 0 {
					action = "plan"
					planned.Add(1)
				}
				args, err := Encode(n)
				if err == nil {
					_, err = h.Do(t.Context(), &Call{Actor: a, Action: action, Args: args})
				}
				if err != nil {
					t.Errorf("%s: %v", a, err)
					return
				}
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	timeout := time.After(testkit.Patience(time.Second))
	for i := range planned.Load() {
		select {
		case <-rung:
		case <-timeout:
			t.Fatalf("%d events were planned, %d have come; %+v", planned.Load(), i, h.Stats())
		}
	}
	for i := range actors {
		n, err := invoke[int](t.Context(), h, Address{"thing", fmt.Sprint(i)}, "add", 0)
		must(t, err)
		total.Add(-int64(n))
	}
	if n := total.Load(); n != 0 {
		t.Errorf("%d are missing", n)
	}
	must(t, h.Close(t.Context()))
	for end := time.Now().Add(testkit.Patience(time.Second)); runtime.NumGoroutine() > before+5 && time.Now().Before(end); {
		runtime.Gosched() // those that have nothing to do any more end when they have their turn
	}
	if n := runtime.NumGoroutine(); n > before+5 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	must(t, engine.Close())
}
