package workflow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestRefusedResult: a step whose result can't be read back has failed, at its first attempt,
// and has recorded no result: the run goes on, now and later.
func TestRefusedResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var failed *StepError
		fn := func(c *Context, _ string) (string, error) {
			_, text := Step(c, "text", work(r, "text", []string{"caf\xe9"}))
			_, one := Step(c, "error", work(r, "error", errors.New("x")))
			for what, err := range map[string]error{"text": text, "error": one} {
				if !errors.As(err, &failed) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if !strings.Contains(text.Error(), "[0]") {
				t.Errorf("%v doesn't say where", text)
			}
			return Step(c, "good", work(r, "good", "good"))
		}
		w := begin(r, fn, "x")
		output(r, w, "good")
		r.wantDid("text", "error", "good")
		w = again(r, fn)
		output(r, w, "good")
		r.wantDid()
		r.same(w.Workflow)
	})
}

// TestRefusedLoop: a loop whose state can't be read back ends the run, and goes on with the
// state before once the code is mended.
func TestRefusedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bad := "caf\xe9"
		fn := func(c *Context, _ string) (string, error) {
			return Loop(c, "loop", "", func(c *Context, s *string) (string, bool, error) {
				err := Do(c, "work", func(context.Context) error { return nil })
				done := *s == "good"
				*s = bad
				return *s, done, err
			})
		}
		w := begin(r, fn, "x")
		if _, err := w.Run(t.Context()); !errors.Is(err, ErrMisuse) {
			t.Errorf("it ran: %v", err)
		}
		bad = "good"
		w = again(r, fn)
		output(r, w, "good")
	})
}
