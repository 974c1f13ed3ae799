package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/workflowtest"
)

var errDown = errors.New("down")

// visit is a workflow to be tested.
func visit(c *workflow.Context, name string) (string, error) {
	room, err := workflow.StepWith(c, "book", &workflow.StepOptions{Timeout: time.Minute, RetryTimeouts: true},
		func(context.Context) (string, error) { return "room for " + name, nil })
	if err != nil {
		return "", err
	}
	c.Sleep("until the day", 7*24*time.Hour)
	m, err := workflow.ReceiveWith[string](c, "arrival", &workflow.ReceiveOptions{Names: []string{"arrived"}, Timeout: time.Hour})
	if errors.Is(err, workflow.ErrTimedOut) {
		return room + " stays empty", nil
	}
	if err != nil {
		return "", err
	}
	return workflow.Step(c, "note", func(context.Context) (string, error) { return room + ", " + m.Body, nil })
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestTime: a week is a moment.
func TestTime(t *testing.T) {
	began := time.Now()
	workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
		start := time.Now()
		got, err := workflowtest.Start(e, visit, "Ada").Live(t.Context())
		want(t, "visit", fmt.Sprint(got, err), "room for Ada stays empty<nil>")
		want(t, "time", time.Since(start), 7*24*time.Hour+time.Hour)
	})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestSteps: steps fail and are slow as the test says.
func TestSteps(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
		start := time.Now()
		book := e.Step("book").Fail(errDown, 2)
		w := workflowtest.Start(e, visit, "Bob")
		s := workflowtest.Rest(e, w)
		want(t, "waits for", s.Names, "[arrived]")
		want(t, "attempts", book.Attempts(), 3)
		if took := time.Since(start); took < 7*24*time.Hour || took > 7*24*time.Hour+time.Minute {
			t.Errorf("it took %v", took)
		}
		e.Restart()
		e.Send("arrived", "on foot")
		var seen string
		note := e.Step("note").Before(func(context.Context) error { seen += "note"; return nil }).Slow(time.Minute)
		e.Options.Around = func(ctx context.Context, s workflow.StepInfo, do func(context.Context) error) error {
			seen += fmt.Sprint(" ", s.Path, s.Attempt)
			return do(ctx)
		}
		w = workflowtest.Open(e, visit)
		start = time.Now()
		s, err := w.Run(t.Context())
		want(t, "run", fmt.Sprint(s.State, err), "failed <nil>") // a minute is too long for its default
		want(t, "attempts", note.Attempts(), 1)
		want(t, "time", time.Since(start), 30*time.Second)
		note.Slow(0)
		if err := w.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := w.Live(t.Context())
		want(t, "visit", fmt.Sprint(got, err), "room for Bob, on foot<nil>")
		want(t, "seen", seen, "note note1")
		want(t, "all", e.Attempts(), "[book book book note note]")
	})
}

// TestSlow: what is slower than its timeout is tried again, if it is to be.
func TestSlow(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
		book := e.Step("book").Slow(time.Hour)
		w := workflowtest.Start(e, visit, "Cy")
		s := workflowtest.Rest(e, w)
		want(t, "visit", s.State, workflow.Failed)
		want(t, "is a timeout", errors.Is(s.Failure, workflow.ErrStepTimeout), true)
		want(t, "attempts", book.Attempts(), 4)
	})
}

// TestCrashes: a workflow is stopped at every commit, and ends as if it weren't.
func TestCrashes(t *testing.T) {
	moments := 0
	for done := false; !done; moments++ {
		workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
			w := workflowtest.Start(e, visit, "Di")
			e.Send("arrived", "late")
			e.CrashAfter(moments)
			_, err := w.Live(t.Context())
			if done = err == nil; !done {
				if !errors.Is(err, workflow.ErrStorage) {
					t.Fatal(err)
				}
				e.Crash()
				w = workflowtest.Open(e, visit)
			}
			got, err := w.Live(t.Context())
			want(t, "visit", fmt.Sprint(got, err), "room for Di, late<nil>")
		})
	}
	if moments < 8 {
		t.Errorf("%d moments", moments)
	}
}

// TestReplay: histories that were saved are held against code.
func TestReplay(t *testing.T) {
	changed := func(c *workflow.Context, name string) (string, error) {
		c.Sleep("first of all", time.Minute)
		return visit(c, name)
	}
	for _, end := range []bool{false, true} {
		var saved []byte
		workflowtest.Run(t, func(t *testing.T, e *workflowtest.Env) {
			w := workflowtest.Start(e, visit, "Ed")
			if workflowtest.Rest(e, w); end {
				if _, err := w.Live(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if saved, err = workflowtest.Save(w.Workflow); err != nil {
				t.Fatal(err)
			}
		})
		if err := workflowtest.Replay(visit, saved, nil); err != nil {
			t.Error(err)
		}
		err := workflowtest.Replay(changed, saved, nil)
		if !errors.Is(err, workflow.ErrDiverged) || !strings.Contains(err.Error(), "book") {
			t.Errorf("got %v", err)
		}
	}
	if err := workflowtest.Replay(visit, []byte("{}"), nil); err == nil {
		t.Error("no history is replayed")
	}
}

// TestSaved replays a history that lies in a file, as of workflows in production.
func TestSaved(t *testing.T) {
	saved, err := os.ReadFile("testdata/visit.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := workflowtest.Replay(visit, saved, nil); err != nil {
		t.Error(err)
	}
}
