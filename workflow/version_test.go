package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"
)

// TestVersion: workflows that were there before go on with the old code, others with the
// new one, and iterations begin with the new one.
func TestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := func(r *rig, versions bool) Func[int, string] {
			return func(c *Context, _ int) (string, error) {
				var got []int
				version := func(c *Context) {
					if versions {
						v := Version(c, "v", 2)
						got = append(got, v)
					}
				}
				version(c)
				if err := Do(c, "a", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				_, err := Loop(c, "l", 0, func(c *Context, i *int) (int, bool, error) {
					version(c)
					c.Sleep("s", time.Hour)
					*i++
					return 0, *i == 3, nil
				})
				return fmt.Sprint(got), err
			}
		}
		r := newRig(t)
		w := begin(r, code(r, false), 0)
		status(r, w, Sleeping)
		w = again(r, code(r, true))
		status(r, w, Sleeping)
		later(time.Hour)
		w = again(r, code(r, true))
		status(r, w, Sleeping)
		later(time.Hour)
		output(r, w, "[1 2 2]")
		r.same(w.Workflow)

		r = newRig(t)
		w = begin(r, code(r, true), 0)
		output(r, w, "[2 2 2 2]")
		e, _ := r.entry(w.Workflow, "v")
		if e.Kind != (VersionEntry{Resolved: 2, Latest: 2}) {
			t.Errorf("%+v", e.Kind)
		}
	})
}

// TestVersionGone: code for a version that a workflow has must not be gone.
func TestVersionGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		code := func(n int) Func[int, int] {
			return func(c *Context, _ int) (int, error) {
				v := Version(c, "v", n)
				c.Sleep("s", time.Hour)
				return v, nil
			}
		}
		w := begin(r, code(3), 0)
		status(r, w, Sleeping)
		_, err := again(r, code(2)).Run(ctx)
		wantErr(t, "run", err, ErrDiverged)
		w = again(r, code(5))
		later(time.Hour)
		output(r, w, 3)
	})
}

func TestRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{Strict: true})
		b := func(c *Context) (int, error) { return Step(c, "s", work(r, "s", 1)) }
		was := func(c *Context, _ int) (int, error) {
			_, err1 := Step(c, "step", work(r, "step", 1))
			_, err2 := Loop(c, "loop", 0, func(c *Context, _ *int) (int, bool, error) { n, err := b(c); return n, true, err })
			_, err3 := Join(c, "join", Branch[int]{"b", b})
			_, _, err4 := Race(c, "race", Branch[int]{"b", b})
			_, err5 := ReceiveAll[int](c, "message", &ReceiveOptions{Timeout: time.Minute, Count: 12})
			c.RollbackCheckpoint("checkpoint")
			Version(c, "version", 1)
			c.SleepUntil("sleep", time.Time{})
			c.Sleep("stay", time.Hour)
			return 1, errors.Join(err1, err2, err3, err4, err5)
		}
		is := func(c *Context, _ int) (int, error) {
			Removed[StepEntry](c, "step")
			Removed[LoopEntry](c, "loop")
			Removed[JoinEntry](c, "join")
			Removed[RaceEntry](c, "race")
			Removed[MessageEntry](c, "message")
			Removed[CheckpointEntry](c, "checkpoint")
			Removed[VersionEntry](c, "version")
			Removed[SleepEntry](c, "sleep")
			c.Sleep("stay", time.Hour)
			return 2, nil
		}
		w := begin(r, was, 0)
		for i := range 12 {
			r.send("m", i)
		}
		status(r, w, Sleeping)
		later(time.Hour)
		w = again(r, is)
		output(r, w, 2)
		r.same(w.Workflow)
		r.close()
		r = newRig(t)
		w = begin(r, is, 0)
		status(r, w, Sleeping)
		w = again(r, is)
		later(time.Hour)
		output(r, w, 2)
	})
}

// TestRemovedOther: what was removed is of the type that it was recorded as, or had when it
// was removed.
func TestRemovedOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		code := func(first func(c *Context)) Func[int, int] {
			return func(c *Context, _ int) (int, error) {
				first(c)
				c.Sleep("stay", time.Hour)
				return 1, nil
			}
		}
		asStep := code(func(c *Context) { Removed[StepEntry](c, "x") })
		asSleep := code(func(c *Context) { Removed[SleepEntry](c, "x") })
		asJoin := code(func(c *Context) { Removed[JoinEntry](c, "x") })
		asRace := code(func(c *Context) { Removed[RaceEntry](c, "x") })
		w := begin(r, code(func(c *Context) { c.SleepUntil("x", time.Time{}) }), 0)
		status(r, w, Sleeping)
		_, err := again(r, asStep).Run(ctx)
		wantErr(t, "a sleep as a step", err, ErrDiverged)
		status(r, again(r, asSleep), Sleeping)

		r = newRig(t)
		w = begin(r, asJoin, 0)
		status(r, w, Sleeping)
		_, err = again(r, asRace).Run(ctx)
		wantErr(t, "a join as a race", err, ErrDiverged)
		w = again(r, asJoin)
		later(time.Hour)
		output(r, w, 1)
		r.same(w.Workflow)
	})
}

func TestDraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			now, id, rnd := c.Now("now"), c.UUID("id"), c.Rand("rand")
			v := SideEffect(c, "v", func() []int { r.do("v"); return []int{1, 2} })
			out := fmt.Sprint(now.UnixMilli(), id, rnd.Uint64(), rnd.IntN(1000), v)
			r.do(out)
			c.Sleep("pause", time.Hour)
			return out, nil
		}
		w := begin(r, fn, 0)
		n := r.counted(func() { status(r, w, Sleeping) })
		if n.Commits != 2 { // the sleep, and the state
			t.Errorf("%d commits", n.Commits)
		}
		out := r.did[1]
		r.wantDid("v", out)
		w = again(r, fn)
		later(time.Hour)
		output(r, w, out)
	})
}

// TestContinueAsNew: nothing is left of what was before but the input.
func TestContinueAsNew(t *testing.T) {
	for _, live := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			fn := func(c *Context, n int) (int, error) {
				if _, err := Step(c, fmt.Sprint("s", n), work(r, fmt.Sprint(n), n)); err != nil {
					return 0, err
				}
				if n == 4 {
					return n, nil
				}
				c.Sleep("pause", time.Hour)
				ContinueAsNew(c, n+1)
				panic("it came back")
			}
			w := begin(r, fn, 1)
			for !live && w.Status().State != Completed {
				s, err := w.Run(ctx)
				must(t, err)
				r.same(w.Workflow)
				if n := len(r.paths(w.Workflow)); n > 2 {
					t.Errorf("recorded %q", r.paths(w.Workflow))
				}
				later(max(0, time.Until(s.Until)))
				w = again(r, fn)
			}
			output(r, w, 4)
			r.wantDid("1", "2", "3", "4")
			r.same(w.Workflow)
		})
	}
}

// TestGuard warns at three quarters, and stops at the end with nothing lost.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newRigWith(t, Options{MaxEntries: 20, Env: part.Env{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		full := 0
		fn := func(c *Context, n int) (int, error) {
			for i := range n {
				c.SleepUntil(fmt.Sprint(i), time.Time{})
				if full = i + 1; strings.Contains(log.String(), "three quarters") != (i >= 15) {
					t.Errorf("after %d entries the log is %q", i+1, log.String())
				}
			}
			return n, nil
		}
		w := begin(r, fn, 25)
		_, err := w.Run(ctx)
		wantErr(t, "run", err, ErrHistoryFull)
		if full != 20 || strings.Count(log.String(), "three quarters") != 1 {
			t.Errorf("%d entries, log %q", full, log.String())
		}
		r.opts.MaxEntries = 0
		log.Reset()
		r.reopen()
		r.opts.Logger = slog.New(slog.DiscardHandler)
		w = attach(r, func(c *Context, n int) (int, error) {
			for i := range n {
				c.SleepUntil(fmt.Sprint(i), time.Time{})
			}
			return n, nil
		})
		output(r, w, 25)
	})
}

// TestGuardMessages: messages that are received together are as many as the history has room
// for, and those for which it has none stay in the queue.
func TestGuardMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20
		r := newRigWith(t, Options{MaxEntries: most})
		got := 0
		fn := func(c *Context, _ int) (int, error) {
			for i := 0; ; i++ {
				ms, err := ReceiveAll[int](c, fmt.Sprint(i), &ReceiveOptions{Count: 100, Timeout: time.Hour})
				if err != nil || len(ms) == 0 {
					return 0, fmt.Errorf("%d messages: %w", len(ms), err)
				}
				for _, m := range ms {
					if m.Body != got {
						t.Errorf("message %d is %d", got, m.Body)
					}
					got++
				}
			}
		}
		w := begin(r, fn, 0)
		for i := range 100 {
			r.send("m", i)
		}
		for range 2 {
			got = 0
			_, err := w.Run(ctx)
			wantErr(t, "run", err, ErrHistoryFull)
			if n := len(w.Snapshot().Entries); n > most || n < most-3 || got < 5 || r.q.Len() != 100-got {
				t.Errorf("%d entries, %d messages received and %d left", n, got, r.q.Len())
			}
			r.same(w.Workflow)
			w = again(r, fn)
		}
	})
}
