package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			c.Sleep("none", -time.Hour)
			c.Sleep("long", 90*time.Minute)
			r.do("up")
			c.SleepUntil("short", time.Now().Add(50*time.Millisecond)) // in memory
			c.SleepUntil("before all time", time.Time{})
			return 1, nil
		}
		w := begin(r, fn, 0)
		start := time.Now()
		s := status(r, w, Sleeping)
		if s.Until.Sub(start) != 90*time.Minute || !r.clock.Next().Equal(s.Until) {
			t.Errorf("until %v, alarm %v", s.Until.Sub(start), r.clock.Next().Sub(start))
		}
		r.same(w.Workflow)
		later(time.Hour)
		w = again(r, fn)
		if s = status(r, w, Sleeping); s.Until.Sub(start) != 90*time.Minute {
			t.Errorf("after a restart until %v", s.Until.Sub(start))
		}
		r.wantDid()
		later(30 * time.Minute)
		status(r, w, Completed)
		r.wantDid("up")
		if took := time.Since(start); took != 90*time.Minute+50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		r.same(w.Workflow)
		if !r.clock.Next().IsZero() {
			t.Error("the alarm is set")
		}
	})
}

// TestSleepLive: a sleeping workflow stays in memory, and says so.
func TestSleepLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		runs := 0
		fn := func(c *Context, _ int) (int, error) {
			runs++
			for i := range 3 {
				c.Sleep(fmt.Sprint("day ", i), 24*time.Hour)
			}
			return runs, nil
		}
		w := begin(r, fn, 0)
		go func() {
			later(30 * time.Hour)
			s := w.Status()
			if s.State != Sleeping || s.Until.IsZero() {
				t.Errorf("%+v", s)
			}
			if _, err := w.Run(ctx); !errors.Is(err, ErrRunning) {
				t.Errorf("a second run: %v", err)
			}
			r.same(w.Workflow)
		}()
		start := time.Now()
		output(r, w, 1)
		if took := time.Since(start); took != 72*time.Hour {
			t.Errorf("took %v", took)
		}
	})
}

// TestClockBackwards: what has slept goes on sleeping until its time, whatever the clock
// was.
func TestSleepClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, d time.Duration) (int, error) {
			c.Sleep("a", d)
			return 1, nil
		}
		for _, d := range []time.Duration{1, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1, 1 << 62} {
			w := begin(r, fn, d)
			s, err := w.Run(ctx)
			must(t, err)
			if d > time.Hour && s.State != Sleeping || d < time.Hour && s.State != Completed {
				t.Errorf("%v: %v", d, s)
			}
			e, _ := r.entry(w.Workflow, "a")
			if k := e.Kind.(SleepEntry); time.Until(k.Deadline.Time()) > d+time.Millisecond {
				t.Errorf("%v: until %v", d, k.Deadline.Time())
			}
			r.same(w.Workflow)
			must(t, w.Close())
			must(t, r.actor.Drop(ctx))
			r.reopen()
		}
	})
}

// TestOnDue: OnDue is called when there is something to do.
func TestOnDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		due := make(chan struct{}, 10)
		r.opts.OnDue = func() { due <- struct{}{} }
		fn := func(c *Context, _ int) (int, error) {
			c.Sleep("long", time.Hour)
			return 1, nil
		}
		w := attach(r, fn)
		synctest.Wait()
		if len(due) != 0 {
			t.Error("one that wasn't started is due")
		}
		must(t, w.Start(ctx, 0))
		<-due
		status(r, w, Sleeping)
		start := time.Now()
		w = again(r, fn)
		<-due // what it waits for isn't known
		status(r, w, Sleeping)
		<-due
		if took := time.Since(start); took != time.Hour {
			t.Errorf("due after %v", took)
		}
		status(r, w, Completed)
		again(r, fn)
		later(time.Hour)
		if len(due) != 0 {
			t.Error("a completed one is due")
		}
	})
}

// TestOnDueMissed: an alarm that rings while something else has the workflow isn't lost.
func TestOnDueMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		due := make(chan struct{}, 10)
		r.opts.OnDue = func() { due <- struct{}{} }
		w := begin(r, func(c *Context, _ int) (int, error) { c.Sleep("long", time.Hour); return 1, nil }, 0)
		<-due
		status(r, w, Sleeping)
		must(t, w.claim())
		later(2 * time.Hour)
		if len(due) > 0 {
			t.Error("it is due while somebody has it")
		}
		w.release()
		<-due
		status(r, w, Completed)
	})
}

// TestGoexit: what the code defers can't do anything any more, and can't stop the end.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (out int, err error) {
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("recovered %v", v)
				}
				r.do("left")
				_, _ = Step(c, "deferred", work(r, "deferred", 1))
				t.Error("a deferred step returned")
			}()
			c.Sleep("long", time.Hour)
			return 1, nil
		}
		w := begin(r, fn, 0)
		for range 2 {
			status(r, w, Sleeping)
			r.wantDid("left")
			if fmt.Sprint(r.paths(w.Workflow)) != "[long]" {
				t.Errorf("recorded %q", r.paths(w.Workflow))
			}
		}
	})
}

// TestMisuse: mistakes of the code end the run with their place, and are not recorded.
func TestMisuse(t *testing.T) {
	step := func(c *Context, name string) { _ = Do(c, name, func(context.Context) error { return nil }) }
	for name, fn := range map[string]func(c *Context){
		"twice": func(c *Context) { step(c, "a"); step(c, "a") },
		"empty": func(c *Context) { step(c, "") },
		"utf8":  func(c *Context) { step(c, "\xff") },
		"long":  func(c *Context) { step(c, string(make([]byte, 5000))) },
		"outer": func(c *Context) {
			_, _ = Loop(c, "l", 0, func(*Context, *int) (int, bool, error) { step(c, "x"); return 0, true, nil })
		},
		"undo": func(c *Context) {
			_ = DoWith(c, "a", &StepOptions{Undo: UndoStep(func(context.Context, int) error { return nil })}, nil)
		},
		"options": func(c *Context) { _ = DoWith(c, "a", &StepOptions{Jitter: 2}, nil) },
		"value":   func(c *Context) { SideEffect(c, "f", func() func() { return nil }) },
		"branches": func(c *Context) {
			b := Branch[int]{"b", func(*Context) (int, error) { return 0, nil }}
			_, _ = Join(c, "j", b, b)
		},
		"large state": func(c *Context) {
			_, _ = Loop(c, "l", strings.Repeat("x", 200_000), func(*Context, *string) (int, bool, error) { return 0, true, nil })
		},
		"large value": func(c *Context) { SideEffect(c, "v", func() []byte { return make([]byte, 200_000) }) },
		"late":        func(c *Context) { c.SleepUntil("s", time.Unix(math.MaxInt64-62135596801, 0)) },
		"version":     func(c *Context) { Version(c, "v", 0) },
		"input":       func(c *Context) { ContinueAsNew(c, "text") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				w := begin(r, func(c *Context, _ int) (int, error) { fn(c); return 1, nil }, 0)
				_, err := w.Run(ctx)
				wantErr(t, "run", err, ErrMisuse)
				if s := w.Status().State; s == Completed || s == Failed {
					t.Errorf("it is %v", s)
				}
			})
		})
	}
}

// TestNotStarted, and other states in which nothing runs.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, n int) (int, error) {
			r.do(n)
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n, nil
		}
		w := attach(r, fn)
		_, err := w.Run(ctx)
		wantErr(t, "run", err, ErrNotStarted)
		_, err = w.Output()
		wantErr(t, "output", err, ErrNotStarted)
		must(t, w.Start(ctx, -1))
		_, err = w.Output()
		wantErr(t, "output", err, ErrUnfinished)
		must(t, w.Start(ctx, 5)) // it keeps the one it has
		for range 2 {
			_, err = w.Live(ctx)
			wantErr(t, "live", err, ErrFailed)
		}
		var f *Failure
		if !errors.As(err, &f) || f.Message != "negative" {
			t.Errorf("got %v", err)
		}
		r.wantDid("-1")
		r.same(w.Workflow)
		must(t, w.Close())
		must(t, w.Close())
		_, err = w.Run(ctx)
		wantErr(t, "run", err, ErrClosed)
		wantErr(t, "start", w.Start(ctx, 1), ErrClosed)
	})
}

// TestLongError: an error of any length and bytes is recorded.
func TestLongError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		long := errors.New(strings.Repeat("\xffü", 1<<20))
		fn := func(c *Context, _ int) (int, error) {
			_, err := Join(c, "j", branchOf("b", func(*Context) (int, error) { return 0, long }))
			if err == nil || Do(c, "s", func(context.Context) error { return Permanent(long) }) == nil {
				t.Error("no error")
			}
			return 0, long
		}
		w := begin(r, fn, 0)
		s := status(r, w, Failed)
		if n := len(s.Failure.Message); n < 4000 || n > 3*maxErrorText {
			t.Errorf("%d bytes", n)
		}
		r.same(w.Workflow)
	})
}
