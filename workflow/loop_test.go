package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		type state struct{ Sum, Last int }
		ran := 0
		fn := func(c *Context, n int) (int, error) {
			return Loop(c, "sum", state{Last: 1}, func(c *Context, s *state) (int, bool, error) {
				ran++
				v, err := Step(c, "add", work(r, fmt.Sprint(s.Last), s.Last))
				if err != nil {
					return 0, false, err
				}
				if s.Sum += v; s.Last == n {
					return s.Sum, true, nil
				}
				s.Last++
				c.Sleep("pause", time.Hour)
				return 0, false, nil
			})
		}
		w := begin(r, fn, 5)
		for i := range 4 {
			status(r, w, Sleeping)
			r.wantDid(fmt.Sprint(i + 1))
			if ran != min(2, i+1) { // the rest of one iteration, and the next one
				t.Errorf("%d iterations ran", ran)
			}
			ran = 0
			r.same(w.Workflow)
			later(time.Hour)
			w = again(r, fn) // each goes on in the iteration in which it was
		}
		output(r, w, 15)
		r.wantDid("5")
		r.same(w.Workflow)
		e, _ := r.entry(w.Workflow, "sum")
		if k := e.Kind.(LoopEntry); k.Iteration != 4 || e.Metadata.Status != StatusCompleted {
			t.Errorf("%+v %+v", k, e.Metadata)
		}
	})
}

// TestLoopOutputs: a loop without an output, or whose output is null, doesn't run again.
func TestLoopVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			_, err := Loop(c, "l", 0, func(*Context, *int) (*int, bool, error) { r.do("l"); return nil, true, nil })
			c.Sleep("pause", time.Hour)
			return 1, err
		}
		status(r, begin(r, fn, 0), Sleeping)
		status(r, again(r, fn), Sleeping)
		r.wantDid("l")
	})
}

// TestLoopPrunes: iterations are forgotten, in order, with the state that doesn't need
// them.
func TestLoopPrunes(t *testing.T) {
	for _, c := range []struct {
		opts LoopOptions
		n    int
		from int // the first iteration that is left
	}{
		{LoopOptions{}, 45, 24},
		{LoopOptions{Commit: 10, Keep: 3}, 45, 41},
		{LoopOptions{Commit: 1, Keep: -1}, 45, 44},
		{LoopOptions{Commit: 1000}, 45, 0},
		{LoopOptions{Commit: 7, Keep: 2}, 300, 297}, // over the boundary of a byte
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			fn := func(w *Context, n int) (int, error) {
				return LoopWith(w, "l", 0, &c.opts, func(w *Context, i *int) (int, bool, error) {
					w.Now("t")
					*i++
					return *i, *i == n, nil
				})
			}
			w := begin(r, fn, c.n)
			n := r.counted(func() { output(r, w, c.n) })
			if most := int64(c.n/max(1, c.opts.Commit) + c.n/20 + 4); c.opts.Commit > 0 && n.Commits > most && r.limits.AtomicBatches == 0 {
				t.Errorf("%+v: %d commits, at most %d", c.opts, n.Commits, most)
			}
			var left []string
			for _, p := range r.paths(w.Workflow) {
				if p != "l" {
					left = append(left, p)
				}
			}
			want := max(0, c.n-1-c.from+1)
			if len(left) != want || want > 0 && left[0] != fmt.Sprintf("l[%d]/t", c.from) {
				t.Errorf("%+v: %d are left, from %v; want %d from %d", c.opts, len(left), left[:min(1, len(left))], want, c.from)
			}
			r.same(w.Workflow)
		})
	}
}

// A loop with steps makes no commits of its own: how far it is, and what is forgotten,
// goes with those of the steps.
func TestLoopRides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if r.limits.AtomicBatches > 0 {
			t.Skip("to forget takes small commits of its own there")
		}
		const n, rest = 100, 3
		fn := func(c *Context, _ int) (int, error) {
			return LoopWith(c, "l", 0, &LoopOptions{Commit: 10}, func(c *Context, i *int) (int, bool, error) {
				_, err := Join(c, "j", // whose branches land at the same time
					Branch[int]{"a", func(c *Context) (int, error) { return Step(c, "s", work(r, "step", 1)) }},
					Branch[int]{"b", func(c *Context) (int, error) { return Step(c, "s", work(r, "step", 1)) }})
				if *i == n-rest {
					c.Sleep("pause", time.Hour)
				}
				*i++
				return *i, *i == n, err
			})
		}
		w := begin(r, fn, 0)
		got := r.counted(func() { status(r, w, Sleeping) })
		if want := int64((n-rest+1)*5 + 3); got.Commits > want || got.Gets+got.Scans > 0 {
			t.Errorf("%d commits, want at most %d; %d reads", got.Commits, want, got.Gets+got.Scans)
		}
		// Those before iteration 80 went with the first step of iteration 90.
		if left := r.paths(w.Workflow); left[1] != "l[80]/j" {
			t.Errorf("the first one left is %s", left[1])
		}
		r.same(w.Workflow)
		w = again(r, fn)
		later(time.Hour)
		output(r, w, n)
		if left := r.paths(w.Workflow); left[1] != fmt.Sprintf("l[%d]/j", n-1-10) {
			t.Errorf("the first one left is %s", left[1])
		}
		r.same(w.Workflow)
	})
}

// TestLoopCrash: after the end of a process iterations run again over what they recorded.
func TestLoopCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			return Loop(c, "l", 0, func(c *Context, i *int) (int, bool, error) {
				v := SideEffect(c, "v", func() int { r.do(*i); return *i })
				if *i == 7 {
					_, err := Step(c, "s", work(r, "step", 1))
					if err != nil {
						return 0, false, err
					}
					c.Sleep("pause", time.Hour)
				}
				*i = v + 1
				return v, v == 9, nil
			})
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		r.wantDid("0", "1", "2", "3", "4", "5", "6", "7", "step")
		w = again(r, fn)
		later(time.Hour)
		output(r, w, 9)
		r.wantDid("8", "9")
	})
}

// TestNested: loops, branches and steps nest in each other, in the first run and in later
// ones, with names that look like paths.
func TestNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (string, error) {
			var all []string
			one := func(c *Context, name, v string) error {
				got, err := Step(c, name, work(r, v, v))
				all = append(all, got)
				return err
			}
			err := one(c, "a/b/x", "root")
			if err != nil {
				return "", err
			}
			if err := one(c, strings.Repeat("long ", 400), "long"); err != nil {
				return "", err
			}
			_, err = Join(c, "a", Branch[int]{"b", func(c *Context) (int, error) {
				if err := one(c, "x", "branch"); err != nil {
					return 0, err
				}
				return Loop(c, "x~3", 0, func(c *Context, i *int) (int, bool, error) {
					if err := one(c, "x", fmt.Sprint("inner", *i)); err != nil {
						return 0, false, err
					}
					_, _, err := Race(c, "r\x00", Branch[int]{"x", func(c *Context) (int, error) { return 0, one(c, "x", "race") }})
					*i++
					return 0, *i == 2, err
				})
			}})
			c.Sleep("pause", time.Hour)
			return strings.Join(all, " "), err
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		r.wantDid("root", "long", "branch", "inner0", "race", "inner1", "race")
		r.same(w.Workflow)
		w = again(r, fn)
		status(r, w, Sleeping)
		r.wantDid()
		later(time.Hour)
		output(r, w, "root long") // branches that are over don't run again
	})
}

// TestDiverged: code that was changed under a workflow is told where, and nothing is
// recorded: the right code goes on.
func TestDiverged(t *testing.T) {
	type code = func(c *Context, name string) error
	step := func(c *Context, name string) error {
		return Do(c, name, func(context.Context) error { return nil })
	}
	sleep := func(c *Context, name string) error { c.Sleep(name, time.Hour); return nil }
	in := func(fn code) code {
		return func(c *Context, name string) error {
			_, err := Loop(c, name, 0, func(c *Context, _ *int) (int, bool, error) { return 0, true, fn(c, "x") })
			return err
		}
	}
	two := func(c *Context, name string) error { return errors.Join(step(c, "y"), sleep(c, name)) }
	for name, c := range map[string]struct {
		was, is code
		path    string
	}{
		"kind":      {sleep, step, "a"},
		"loop":      {in(sleep), step, "a"},
		"inside":    {in(sleep), in(step), "a[0]/x"},
		"unvisited": {in(two), in(func(c *Context, name string) error { c.SleepUntil(name, time.Time{}); return nil }), "a[0]/y"},
		"branches": {func(c *Context, name string) error {
			_, err := Join(c, name, Branch[int]{"b", func(c *Context) (int, error) { return 0, sleep(c, "x") }})
			return err
		}, func(c *Context, name string) error {
			_, err := Join(c, name, Branch[int]{"other", func(c *Context) (int, error) { return 0, sleep(c, "x") }})
			return err
		}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				was := func(w *Context, _ int) (int, error) { return 1, c.was(w, "a") }
				is := func(w *Context, _ int) (int, error) { return 2, c.is(w, "a") }
				w := begin(r, was, 0)
				status(r, w, Sleeping)
				later(time.Hour)
				w = again(r, is)
				_, err := w.Run(ctx)
				if placeOf(err) != c.path || !errors.Is(err, ErrDiverged) {
					t.Errorf("got %v, want something about %s", err, c.path)
				}
				if s := w.Status().State; s != Sleeping {
					t.Errorf("it is %v", s)
				}
				w = again(r, was)
				output(r, w, 1)
			})
		})
	}
}

// TestStrict: what is left at the top level is looked at if that is wanted.
func TestStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigWith(t, Options{Strict: strict})
			was := func(c *Context, _ int) (int, error) {
				_, err := Step(c, "old", work(r, "old", 1))
				c.Sleep("pause", time.Hour)
				return 1, err
			}
			is := func(c *Context, _ int) (int, error) {
				c.Sleep("pause", time.Hour)
				return 1, nil
			}
			status(r, begin(r, was, 0), Sleeping)
			later(time.Hour)
			_, err := again(r, is).Run(ctx)
			if errors.Is(err, ErrDiverged) != strict || err != nil && !strings.Contains(err.Error(), "old") {
				t.Errorf("strict %v: %v", strict, err)
			}
		})
	}
}
