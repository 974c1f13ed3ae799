package workflow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/queue"
)

// TestCommitsOfThree: a workflow of three steps is four engine commits behind its start: an attempt, twice a result and an attempt, and the last result and
// the end.
func TestCommitsOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := begin(r, func(c *Context, n int) (int, error) {
			for _, name := range []string{"one", "two", "three"} {
				var err error
				if n, err = Step(c, name, work(r, name, n+1)); err != nil {
					return 0, err
				}
			}
			return n, nil
		}, 0)
		if n := r.counted(func() { output(r, w, 3) }); n.Commits != 4 || n.Durable != 4 {
			t.Errorf("%+v", n)
		}
		r.same(w.Workflow)
	})
}

// TestCall: an input that is called with lands with the first attempt, and a workflow that never began isn't started.
func TestCall(t *testing.T) {
	code := func(r *rig) Func[int, int] {
		return func(c *Context, n int) (int, error) {
			if n < 0 {
				c.Now("")
			}
			return Step(c, "one", work(r, "one", n+1))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := attach(r, code(r))
		if n := r.counted(func() {
			out, err := w.Call(ctx, 1)
			if must(t, err); out != 2 {
				t.Errorf("it returns %d", out)
			}
		}); n.Commits != 2 {
			t.Errorf("%d commits", n.Commits)
		}
		_, err := w.Call(ctx, 5)
		wantErr(t, "call of one that is over", err, ErrOver)
		r.same(w.Workflow)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := attach(r, code(r))
		_, err := w.Call(ctx, -1)
		wantErr(t, "call", err, ErrMisuse)
		w = again(r, code(r))
		_, err = w.Live(ctx)
		wantErr(t, "live", err, ErrNotStarted)
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err = w.Call(over, 2)
		wantErr(t, "call whose context has ended", err, ErrEvicted)
		r.same(w.Workflow)
		w = again(r, code(r))
		_, err = w.Call(ctx, 7) // it was started
		must(t, err)
		output(r, w, 3)
	})
}

// TestCallFailed: what a run that went wrong had in memory is neither stored by a run that doesn't begin, nor taken for a start.
func TestCallFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := attach(r, func(c *Context, n int) (int, error) {
			if n == 1 {
				c.UUID("drawn")
				c.Now("")
			}
			return Step(c, "one", work(r, "one", n+1))
		})
		_, err := w.Call(ctx, 1)
		wantErr(t, "call", err, ErrMisuse)
		over, cancel := context.WithCancel(ctx)
		cancel()
		if n := r.counted(func() { _, err = w.Run(over) }); n.Commits != 0 {
			t.Errorf("%d commits of a run that doesn't begin", n.Commits)
		}
		wantErr(t, "run", err, ErrEvicted)
		_, err = w.Call(ctx, 1)
		wantErr(t, "call", err, ErrMisuse)
		must(t, w.Start(ctx, 2))
		output(r, w, 3)
		r.wantDid("one")
		r.same(w.Workflow)
	})
}

// TestResultNotHeld: a result is stored after a millisecond, whatever the code does then, and before anything that isn't an attempt which is recorded.
func TestResultNotHeld(t *testing.T) {
	for name, c := range map[string]struct {
		code    func(r *rig, c *Context) error
		commits int64
	}{
		"it computes": {func(r *rig, c *Context) error { later(time.Millisecond + 1); return nil }, 1},
		"it is quick": {func(r *rig, c *Context) error { later(time.Millisecond - 1); return nil }, 0},
		"a draw":      {func(r *rig, c *Context) error { c.Now("now"); return nil }, 1},
		"a version":   {func(r *rig, c *Context) error { Version(c, "version", 2); return nil }, 1},
		"a loop begins": {func(r *rig, c *Context) error {
			return second(Loop(c, "loop", 0, func(*Context, *int) (int, bool, error) { return 0, false, errors.New("ended") }))
		}, 1},
		"work that isn't recorded": {func(r *rig, c *Context) error {
			return DoWith(c, "unrecorded", &StepOptions{Unrecorded: true}, func(context.Context) error { return r.hasResult("one") })
		}, 1},
		"an attempt": {func(r *rig, c *Context) error {
			return Do(c, "two", func(context.Context) error { return r.hasResult("one") })
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				w := begin(r, func(ctx *Context, _ int) (int, error) {
					must(t, Do(ctx, "one", func(context.Context) error { return nil }))
					if n := r.counted(func() { _ = c.code(r, ctx) }).Commits; n != c.commits { // one of the errors is the test's own
						t.Errorf("%d commits, want %d", n, c.commits)
					}
					return 1, nil
				}, 0)
				output(r, w, 1)
				r.same(w.Workflow)
			})
		})
	}
}

// TestResultOfSleeper: a workflow in memory that waits for a message behind a step notes that it sleeps, with the result, in one commit: also where that takes
// longer than a result waits.
func TestResultOfSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := begin(r, func(c *Context, _ int) (int, error) {
			if err := Do(c, "one", func(context.Context) error { r.engine.Reset(); return nil }); err != nil {
				return 0, err
			}
			m, err := Receive[int](c, "message")
			if err != nil {
				return 0, err
			}
			return m.Body, nil
		}, 0)
		r.engine.Delay(5 * time.Millisecond)
		done := make(chan error, 1)
		go func() {
			out, err := w.Live(ctx)
			if out != 7 {
				t.Errorf("it returns %d", out)
			}
			done <- err
		}()
		later(time.Second)
		if n := r.engine.Counts(); n.Commits != 1 {
			t.Errorf("%d commits", n.Commits)
		}
		if s := w.Status().State; s != Sleeping {
			t.Errorf("it is %v", s)
		}
		must(t, r.hasResult("one"))
		must(t, second(r.q.Enqueue(ctx, queue.Send{Name: "a", Body: 7})))
		must(t, <-done)
		r.engine.Delay(0)
		r.same(w.Workflow)
	})
}

// hasResult fails the test unless the step at a path has a result in the store.
func (r *rig) hasResult(path string) error {
	r.t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	stored, _, err := Read(ctx, snap)
	must(r.t, errors.Join(err, snap.Close()))
	for _, e := range stored.Entries {
		if stored.Path(e.Location) == path && e.Metadata.Status == StatusCompleted {
			return nil
		}
	}
	r.t.Errorf("the result of %s isn't stored", path)
	return nil
}

// TestResultOfWrongCode: the work of a step counts when the code goes wrong behind it, and so is the state of the loop that it is in.
func TestResultOfWrongCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		code := func(wrong bool) func(c *Context, _ int) (int, error) {
			return func(c *Context, _ int) (int, error) {
				return Loop(c, "loop", 0, func(c *Context, n *int) (int, bool, error) {
					if *n++; *n == 3 && wrong {
						c.Now("")
					}
					return *n, *n == 3, second(Step(c, "step", work(r, fmt.Sprint("step ", *n), 1)))
				})
			}
		}
		w := begin(r, code(true), 0)
		_, err := w.Run(ctx)
		wantErr(t, "run", err, ErrMisuse)
		r.wantDid("step 1", "step 2")
		must(t, r.hasResult("loop[1]/step"))
		w = again(r, code(false))
		output(r, w, 3)
		r.wantDid("step 3")
		r.same(w.Workflow)
	})
}
