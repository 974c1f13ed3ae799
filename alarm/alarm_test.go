package alarm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A bell counts rings and remembers when they were.
type bell struct {
	mu   sync.Mutex
	rung []time.Duration // since start
	from time.Time
}

func newBell() *bell { return &bell{from: time.Now()} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, time.Since(b.from))
}

func (b *bell) want(t *testing.T, at ...time.Duration) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.rung, at) {
		t.Errorf("rang at %v, want %v", b.rung, at)
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		start := time.Now()
		c := New(&Options{OnChange: func(next time.Time) {
			if next.IsZero() {
				told = append(told, -1)
			} else {
				told = append(told, next.Sub(start))
			}
		}})
		a, b := newBell(), newBell()
		sa, sb := c.Source(a.ring), c.Source(b.ring)
		sa.Set(start.Add(time.Hour))
		sb.Set(start.Add(2 * time.Second)) // displaces nothing
		if got := c.Next(); !got.Equal(start.Add(2 * time.Second)) {
			t.Errorf("next is %v", got)
		}
		sb.Set(start.Add(3 * time.Second))
		time.Sleep(3 * time.Second)
		b.want(t, 3*time.Second)
		if !sb.At().IsZero() {
			t.Error("a source that rang is still set")
		}
		b.mu.Lock()   // it rings until Set has told of the time that it rings for
		sb.Set(start) // long past
		b.mu.Unlock()
		b.want(t, 3*time.Second, 3*time.Second)
		sb.Set(start.Add(time.Minute))
		sb.Set(time.Time{})
		time.Sleep(time.Hour)
		a.want(t, time.Hour)
		b.want(t, 3*time.Second, 3*time.Second)
		sb.Set(start.Add(3 * time.Hour))
		sb.Close()
		sb.Close()
		sb.Set(start.Add(2 * time.Hour))
		sa.Set(start.Add(3 * time.Hour))
		c.Close()
		sa.Set(start)
		time.Sleep(3 * time.Hour)
		a.want(t, time.Hour)
		b.want(t, 3*time.Second, 3*time.Second)
		h := time.Hour
		want := []time.Duration{h, 2 * time.Second, 3 * time.Second, h, 0, h, time.Minute, h, -1, 3 * h, -1, 3 * h}
		if !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// TestOneAtATime holds that a ring that comes during another one is not lost and
// doesn't overlap with it.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		inside, rings := 0, 0
		var mu sync.Mutex
		s := c.Source(func() {
			mu.Lock()
			inside++
			rings++
			if inside > 1 {
				t.Error("two rings at once")
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
		})
		for range 5 {
			s.Set(time.Now())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if rings != 2 {
			t.Errorf("%d rings, want one and one more for all that came meanwhile", rings)
		}
		s.Set(time.Now())
		c.Close() // waits
		if inside != 0 {
			t.Error("Close didn't wait")
		}
	})
}

// A host remembers what it was told last, as the waker of an actor does.
type host struct {
	mu   sync.Mutex
	last time.Time
}

func (h *host) told(next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = next
}

func (h *host) want(t *testing.T, at time.Time) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.Equal(at) {
		t.Errorf("the host would wake the actor at %v, want %v", h.last, at)
	}
}

// TestLasting holds that what is stored is due though its source is closed, and that a
// source of the same name takes its place.
func TestLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := &host{}, newBell()
		c := New(&Options{OnChange: h.told})
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		queue, schedule := c.Lasting("queue", b.ring), c.Lasting("schedule", b.ring)
		queue.Set(at(time.Hour))
		schedule.Hold(at(time.Minute)) // not started
		other := c.Source(b.ring)
		other.Set(at(time.Second))
		h.want(t, at(time.Second))
		other.Close()
		queue.Close()
		queue.Close()
		queue.Set(time.Time{})
		h.want(t, at(time.Minute))
		time.Sleep(2 * time.Minute)
		b.want(t) // no source that is held or closed
		schedule.Set(time.Time{})
		h.want(t, at(time.Hour))

		queue = c.Lasting("queue", b.ring)
		if h.want(t, at(time.Hour)); !queue.At().Equal(at(time.Hour)) {
			t.Errorf("the next one begins with %v", queue.At())
		}
		time.Sleep(time.Hour)
		b.want(t) // it is yet to look
		queue.Set(queue.At())
		b.want(t, time.Hour+2*time.Minute)
		h.want(t, time.Time{})
		queue.Set(at(3 * time.Hour))
		again := c.Lasting("queue", b.ring)
		queue.Set(at(2 * time.Hour)) // it was replaced
		queue.Close()
		h.want(t, at(3*time.Hour))
		again.Set(at(4 * time.Hour))
		again.Close()
		c.Close()
		h.want(t, at(4*time.Hour))
		if got := c.Next(); !got.Equal(at(4 * time.Hour)) {
			t.Errorf("next is %v", got)
		}
	})
}

// TestRingCounts holds that the time for which a source is being rung counts until it is
// set anew or ring returns, and that nothing of it is lost if it is closed meanwhile.
func TestRingCounts(t *testing.T) {
	for _, end := range []string{"returns", "sets", "closes", "is replaced", "the clock is closed"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, start := &host{}, time.Now()
				c := New(&Options{OnChange: h.told})
				entered, leave := make(chan struct{}), make(chan struct{})
				s := c.Lasting("s", func() { close(entered); <-leave })
				due, want := start.Add(time.Second), time.Time{}
				s.Set(due)
				<-entered
				h.want(t, due)
				switch end {
				case "sets":
					want = start.Add(time.Hour)
					s.Set(want)
					h.want(t, want)
				case "closes":
					s.Close()
					want = due // it isn't said what is left
				case "is replaced":
					c.Lasting("s", func() {})
					want = due
				case "the clock is closed":
					closed := make(chan struct{})
					go func() { c.Close(); close(closed) }()
					synctest.Wait()
					want = start.Add(time.Minute)
					s.Set(want) // told at the end, too
					close(leave)
					<-closed
					h.want(t, want)
					return
				}
				close(leave)
				h.want(t, want)
				c.Close()
				h.want(t, want)
			})
		})
	}
}

// TestJump holds that a time of day that jumps ahead, as after a suspension, is noticed
// within a minute.
func TestJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var jump time.Duration
		c := New(&Options{Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(jump)
		}})
		defer c.Close()
		b := newBell()
		c.Source(b.ring).Set(c.Now().Add(24 * time.Hour))
		time.Sleep(time.Second)
		mu.Lock()
		jump = 48 * time.Hour
		mu.Unlock()
		time.Sleep(maxNap)
		b.want(t, maxNap)
	})
}

// TestRandom sets many sources at random, from many goroutines, and holds that each
// rings at the last time that it was set to.
func TestRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		c := New(&Options{OnChange: func(next time.Time) { last = next }})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				b := newBell()
				s := c.Source(b.ring)
				var want []time.Duration
				for range 100 {
					at := time.Since(start) + time.Duration(1+r.IntN(1000))*time.Millisecond
					s.Set(start.Add(at))
					nap := time.Duration(r.IntN(1000)) * time.Millisecond
					if nap > at-time.Since(start) {
						want = append(want, at)
					} else if nap == at-time.Since(start) {
						nap-- // either of the two may come first
					}
					time.Sleep(nap)
				}
				s.Close()
				b.mu.Lock()
				defer b.mu.Unlock()
				if !slices.Equal(b.rung, want) {
					t.Errorf("source %d rang at %v, want %v", i, b.rung, want)
				}
			})
		}
		wg.Wait()
		c.Close()
		if !last.IsZero() {
			t.Errorf("last told of %v", last)
		}
	})
}

func Example() {
	c := New(nil)
	defer c.Close()
	rung := make(chan string)
	var schedule *Source
	schedule = c.Source(func() {
		schedule.Set(time.Time{}) // nothing is left: until that is said, its time counts
		rung <- "schedule"
	})
	workflow := c.Source(func() { rung <- "workflow" })
	workflow.Set(c.Now().Add(time.Hour))
	schedule.Set(c.Now().Add(time.Millisecond))
	fmt.Println(<-rung, c.Next().Equal(workflow.At()))
	// Output: schedule true
}
