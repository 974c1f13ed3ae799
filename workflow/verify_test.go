package workflow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestVerify: new code is held against what workflows have done, and nothing happens.
func TestVerify(t *testing.T) {
	step := func(c *Context, name string) error {
		return Do(c, name, func(context.Context) error { return nil })
	}
	was := func(end string) Func[int, int] {
		return func(c *Context, _ int) (int, error) {
			if err := step(c, "a"); err != nil {
				return 0, err
			}
			_, err := Join(c, "j", branchOf("x", func(c *Context) (int, error) { c.Sleep("s", time.Minute); return 0, step(c, "b") }))
			if err != nil {
				return 0, err
			}
			switch end {
			case "sleeps":
				c.Sleep("long", time.Hour)
			case "fails":
				return 0, errors.New("failed")
			}
			return 1, nil
		}
	}
	for _, c := range []struct {
		name string
		end  string
		is   Func[int, int]
		path string // of the error, "" for none
	}{
		{"same", "", was(""), ""},
		{"same, sleeps", "sleeps", was("sleeps"), ""},
		{"same, fails", "fails", was("fails"), ""},
		{"more at the end", "sleeps", func(c *Context, n int) (int, error) {
			n, err := was("sleeps")(c, n)
			return n, errors.Join(err, step(c, "new"))
		}, ""},
		{"more before", "sleeps", func(c *Context, n int) (int, error) {
			return 0, errors.Join(step(c, "new"), second(was("sleeps")(c, n)))
		}, "a"},
		{"more before, versioned", "sleeps", func(c *Context, n int) (int, error) {
			if Version(c, "v", 2) == 2 {
				return 0, step(c, "new")
			}
			return was("sleeps")(c, n)
		}, ""},
		{"more after the end", "", func(c *Context, n int) (int, error) {
			n, err := was("")(c, n)
			return n, errors.Join(err, step(c, "new"))
		}, "."},
		{"fails now", "", was("fails"), "."},
		{"doesn't fail now", "fails", was(""), "."},
		{"less", "sleeps", func(c *Context, _ int) (int, error) { return 1, step(c, "a") }, "j"},
		{"another kind", "", func(c *Context, _ int) (int, error) { c.Sleep("a", 1); return 1, nil }, "a"},
		{"another branch", "", func(c *Context, _ int) (int, error) {
			err := step(c, "a")
			_, _ = Join(c, "j", branchOf("y", func(c *Context) (int, error) { return 0, nil }))
			return 1, err
		}, "j"},
		{"twice", "", func(c *Context, _ int) (int, error) { return 1, errors.Join(step(c, "a"), step(c, "a")) }, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				w := begin(r, was(c.end), 0)
				status(r, w, Sleeping)
				must(t, again(r, was(c.end)).Verify(ctx)) // in the middle of a branch
				later(time.Minute)
				s, err := again(r, was(c.end)).Run(ctx)
				must(t, err)
				w = again(r, c.is)
				n := r.counted(func() { err = w.Verify(ctx) })
				if n.Commits > 0 || w.Status().State != s.State {
					t.Errorf("%d commits, and it is %v", n.Commits, w.Status().State)
				}
				if path := placeOf(err); path != c.path {
					t.Errorf("got %v, want something about %q", err, c.path)
				}
				r.same(w.Workflow)
			})
		})
	}
}
