package workflow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// doNothing is a step without an effect.
func doNothing(c *Context, name string) error {
	return Do(c, name, func(context.Context) error { return nil })
}

// verifiedCode does two steps, and ends as end says.
func verifiedCode(end string) Func[int, int] {
	return func(c *Context, _ int) (int, error) {
		if err := doNothing(c, "a"); err != nil {
			return 0, err
		}
		_, err := Join(c, "j", branchOf("x", func(c *Context) (int, error) { c.Sleep("s", time.Minute); return 0, doNothing(c, "b") }))
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

// A verifyCase is new code for workflows that have run verifiedCode.
type verifyCase struct {
	name string
	end  string
	is   Func[int, int]
	path string // of the error, "" for none
}

var verifyCases = []verifyCase{
	{"same", "", verifiedCode(""), ""},
	{"same, sleeps", "sleeps", verifiedCode("sleeps"), ""},
	{"same, fails", "fails", verifiedCode("fails"), ""},
	{"more at the end", "sleeps", func(c *Context, n int) (int, error) {
		n, err := verifiedCode("sleeps")(c, n)
		return n, errors.Join(err, doNothing(c, "new"))
	}, ""},
	{"more before", "sleeps", func(c *Context, n int) (int, error) {
		return 0, errors.Join(doNothing(c, "new"), second(verifiedCode("sleeps")(c, n)))
	}, "a"},
	{"more before, versioned", "sleeps", func(c *Context, n int) (int, error) {
		if Version(c, "v", 2) == 2 {
			return 0, doNothing(c, "new")
		}
		return verifiedCode("sleeps")(c, n)
	}, ""},
	{"more after the end", "", func(c *Context, n int) (int, error) {
		n, err := verifiedCode("")(c, n)
		return n, errors.Join(err, doNothing(c, "new"))
	}, "."},
	{"fails now", "", verifiedCode("fails"), "."},
	{"doesn't fail now", "fails", verifiedCode(""), "."},
	{"less", "sleeps", func(c *Context, _ int) (int, error) { return 1, doNothing(c, "a") }, "j"},
	{"another kind", "", func(c *Context, _ int) (int, error) { c.Sleep("a", 1); return 1, nil }, "a"},
	{"another branch", "", func(c *Context, _ int) (int, error) {
		err := doNothing(c, "a")
		_, _ = Join(c, "j", branchOf("y", func(c *Context) (int, error) { return 0, nil }))
		return 1, err
	}, "j"},
	{"twice", "", func(c *Context, _ int) (int, error) { return 1, errors.Join(doNothing(c, "a"), doNothing(c, "a")) }, "a"},
}

// TestVerify: new code is held against what workflows have done, and nothing happens.
func TestVerify(t *testing.T) {
	for _, c := range verifyCases {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c verifyCase) run(t *testing.T) {
	r := newRig(t)
	w := begin(r, verifiedCode(c.end), 0)
	status(r, w, Sleeping)
	must(t, again(r, verifiedCode(c.end)).Verify(ctx)) // in the middle of a branch
	later(time.Minute)
	s, err := again(r, verifiedCode(c.end)).Run(ctx)
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
}
