package workflowtest_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/workflowtest"
)

// read returns what is stored of the workflow, as a tool sees it that doesn't have its code.
func read(t *testing.T, a *actorstore.Actor) *workflow.Snapshot {
	t.Helper()
	snap, err := a.Snapshot(t.Context())
	testkit.Must(t, err)
	defer snap.Close()
	s, damages, err := workflow.Read(t.Context(), snap)
	if testkit.Must(t, err); len(damages) > 0 {
		t.Errorf("damages: %v", damages)
	}
	return s
}

// pays returns a step that fails always.
func pays(c *workflow.Context, o workflow.StepOptions) (int, error) {
	return workflow.StepWith(c, "pay", &o, func(context.Context) (int, error) { return 0, errors.New("busy") })
}

// The times of waits.
const (
	hour = workflow.Millis(3_600_000)
	zero = 946_684_800_000 // 2000-01-01, when time in a bubble begins
)

// A waiting is a workflow that comes to wait.
type waiting struct {
	what  string
	code  workflow.Func[int, int]
	want  []workflow.Wait // with times from zero on
	words string
	stuck bool
}

var waitings = []waiting{
	{"a sleep", func(c *workflow.Context, _ int) (int, error) {
		c.Sleep("long nap", time.Hour)
		return 0, nil
	}, []workflow.Wait{{For: workflow.WaitTimer, Path: `"long nap"`, Until: hour}}, `the time 2000-01-01T01:00:00.000Z ("long nap")`, false},
	{"a message", func(c *workflow.Context, _ int) (int, error) {
		_, err := workflow.ReceiveWith[int](c, "decision", &workflow.ReceiveOptions{Names: []string{"yes", "no"}})
		return 0, err
	}, []workflow.Wait{{For: workflow.WaitMessage, Path: "decision", Names: []string{"yes", "no"}}}, "a message yes or no (decision)", false},
	{"any message", func(c *workflow.Context, _ int) (int, error) {
		return workflow.Loop(c, "each", 0, func(c *workflow.Context, _ *int) (int, bool, error) {
			_, err := workflow.Receive[int](c, "a b")
			return 0, true, err
		})
	}, []workflow.Wait{{For: workflow.WaitMessage, Path: `each[0]/"a b"`}}, `any message (each[0]/"a b")`, false},
	{"a message until a deadline", func(c *workflow.Context, _ int) (int, error) {
		_, err := workflow.ReceiveWith[int](c, "m", &workflow.ReceiveOptions{Names: []string{"n"}, Timeout: 2 * time.Hour})
		return 0, err
	}, []workflow.Wait{{For: workflow.WaitMessage, Path: "m", Until: 2 * hour, Names: []string{"n"}}}, "a message n until 2000-01-01T02:00:00.000Z (m)", false},
	{"an attempt", func(c *workflow.Context, _ int) (int, error) {
		return pays(c, workflow.StepOptions{Backoff: time.Hour, MaxBackoff: time.Hour})
	}, []workflow.Wait{{For: workflow.WaitAttempt, Path: "pay", Until: hour, Error: "busy"}}, "an attempt at pay at 2000-01-01T01:00:00.000Z, after: busy", false},
	{"an attempt that Retry says", func(c *workflow.Context, _ int) (int, error) {
		return pays(c, workflow.StepOptions{MaxBackoff: 9 * time.Hour, Retry: func(error, uint32) (time.Duration, bool) { return 3 * time.Hour, true }})
	}, []workflow.Wait{{For: workflow.WaitAttempt, Path: "pay", Until: 3 * hour, Error: "busy"}}, "an attempt at pay at 2000-01-01T03:00:00.000Z, after: busy", false},
	{"resume", func(c *workflow.Context, _ int) (int, error) {
		return pays(c, workflow.StepOptions{MaxAttempts: 1, Pause: true})
	}, []workflow.Wait{{For: workflow.WaitResume, Path: "pay", Error: "busy"}}, "resume, as pay is paused, after: busy", true},
	{"branches", func(c *workflow.Context, _ int) (int, error) {
		_, err := workflow.Join(c, "join",
			workflow.Branch[int]{Name: "a", Run: func(c *workflow.Context) (int, error) {
				return pays(c, workflow.StepOptions{MaxAttempts: 1, Pause: true})
			}},
			workflow.Branch[int]{Name: "b", Run: func(c *workflow.Context) (int, error) {
				c.Sleep("nap", 2*time.Hour)
				return 0, nil
			}},
			workflow.Branch[int]{Name: "c", Run: func(c *workflow.Context) (int, error) {
				_, _, err := workflow.Race(c, "race",
					workflow.Branch[int]{Name: "x", Run: func(*workflow.Context) (int, error) { return 1, nil }},
					workflow.Branch[int]{Name: "y", Run: func(c *workflow.Context) (int, error) {
						c.Sleep("lost", time.Minute)
						return 0, nil
					}})
				if err == nil {
					c.Sleep("nap", time.Hour)
				}
				return 0, err
			}})
		return 0, err
	}, []workflow.Wait{
		{For: workflow.WaitTimer, Path: "join/c/nap", Until: hour},
		{For: workflow.WaitTimer, Path: "join/b/nap", Until: 2 * hour},
		{For: workflow.WaitResume, Path: "join/a/pay", Error: "busy"},
	}, "the time 2000-01-01T01:00:00.000Z (join/c/nap); the time 2000-01-01T02:00:00.000Z (join/b/nap); resume, as join/a/pay is paused, after: busy", false},
}

// TestWaits: what a workflow waits for is the same after a run, to a tool that reads the store, after a restart, before the next
// run, and after that. A wait began when it began, though the workflow runs again meanwhile.
func TestWaits(t *testing.T) {
	for _, tt := range waitings {
		t.Run(tt.what, func(t *testing.T) {
			tt.want = slices.Clone(tt.want)
			for i := range tt.want {
				w := &tt.want[i]
				if w.Since = zero; w.Until != 0 {
					w.Until += zero
				}
			}
			workflowtest.Run(t, tt.run)
		})
	}
}

// run runs the workflow until it waits, and looks at that from everywhere.
func (tt waiting) run(t *testing.T, env *workflowtest.Env) {
	w := workflowtest.Open(env, tt.code)
	holds := func(when string, got []workflow.Wait) {
		t.Helper()
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v\nwant %+v", when, got, tt.want)
		}
	}
	testkit.Must(t, w.Start(t.Context(), 0))
	if s := w.Status(); s.State != workflow.Pending || len(s.Waits) != 1 || s.Waits[0].For != workflow.WaitRun {
		t.Errorf("before the first run: %+v", s)
	}
	_, err := w.Run(t.Context())
	testkit.Must(t, err)
	holds("after the run", w.Status().Waits)
	stored := read(t, env.Actor)
	holds("stored", stored.Waits())
	if stored.Stuck() != tt.stuck {
		t.Errorf("stuck: %v", stored.Stuck())
	}
	env.Sleep(time.Minute)
	env.Restart()
	w = workflowtest.Open(env, tt.code)
	holds("after a restart", w.Status().Waits)
	_, err = w.Run(t.Context())
	testkit.Must(t, err)
	holds("after the second run", w.Status().Waits)
	var words []string
	for _, wait := range read(t, env.Actor).Waits() {
		words = append(words, wait.String())
	}
	if got := strings.Join(words, "; "); got != tt.words {
		t.Errorf("in words: got %s, want %s", got, tt.words)
	}
	testkit.Must(t, w.Resume(t.Context()))
	if got := read(t, env.Actor); got.Stuck() || len(got.Waits()) != 1 || got.Waits()[0].For != workflow.WaitRun {
		t.Errorf("after Resume: %+v", got.Waits())
	}
	testkit.Must(t, w.Cancel(t.Context()))
	if got := read(t, env.Actor); len(got.Waits()) > 0 || got.Stuck() || got.Rested != nil {
		t.Errorf("after Cancel: %+v", got)
	}
}

// TestWaitsOld: of a workflow whose last run made no record of what it waits for, as older versions and RivetKit, what its entries
// say is known: but for what has lost a race, and for the time of an attempt. The next run makes the record.
func TestWaitsOld(t *testing.T) {
	message := func(c *workflow.Context) (int, error) {
		_, err := workflow.Receive[int](c, "m")
		return 0, err
	}
	for _, tt := range []struct {
		what  string
		code  func(c *workflow.Context) (int, error)
		words string
	}{
		{"a message", message, "a run"},
		{"branches", func(c *workflow.Context) (int, error) {
			_, err := workflow.Join(c, "join",
				workflow.Branch[int]{Name: "message", Run: message},
				workflow.Branch[int]{Name: "pay", Run: func(c *workflow.Context) (int, error) {
					return pays(c, workflow.StepOptions{Backoff: time.Hour, MaxBackoff: time.Hour})
				}},
				workflow.Branch[int]{Name: "nap", Run: func(c *workflow.Context) (int, error) {
					c.Sleep("over", time.Millisecond)
					_, _, err := workflow.Race(c, "race",
						workflow.Branch[int]{Name: "loses", Run: func(c *workflow.Context) (int, error) {
							c.Sleep("lost", 2*time.Minute)
							return 0, nil
						}},
						workflow.Branch[int]{Name: "wins", Run: func(c *workflow.Context) (int, error) {
							c.Sleep("won", time.Minute)
							return 0, nil
						}})
					c.Sleep("nap", time.Hour)
					return 0, err
				}})
			return 0, err
		}, "the time 2000-01-01T01:01:00.001Z (join/nap/nap); an attempt at join/pay/pay, after: busy"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				code := func(c *workflow.Context, _ int) (int, error) { return tt.code(c) }
				w := workflowtest.Start(env, code, 0)
				for range 2 {
					_, err := w.Run(t.Context())
					testkit.Must(t, err)
					env.Sleep(time.Minute)
				}
				want := w.Status()
				testkit.Must(t, w.Close())
				var b batch.Batch
				b.Delete(env.Actor.Layout().AppendWorkflowField(nil, actorstore.WorkflowWaits))
				testkit.Must(t, env.Actor.Commit(t.Context(), &b))
				var words []string
				s := read(t, env.Actor)
				for _, wait := range s.Waits() {
					words = append(words, wait.String())
				}
				if got := strings.Join(words, "; "); got != tt.words || s.Stuck() || s.Rested != nil {
					t.Errorf("got %s, want %s", got, tt.words)
				}
				env.Restart()
				w = workflowtest.Open(env, code)
				if got := w.Status(); !reflect.DeepEqual(got.Waits, s.Waits()) {
					t.Errorf("got %+v, want %+v", got.Waits, s.Waits())
				}
				_, err := w.Run(t.Context())
				testkit.Must(t, err)
				for i := range want.Waits {
					want.Waits[i].Since = read(t, env.Actor).Waits()[i].Since
				}
				if got := w.Status(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(read(t, env.Actor).Waits(), want.Waits) {
					t.Errorf("after a run: got %+v, want %+v", got, want)
				}
			})
		})
	}
}

// TestStuck: only a workflow that isn't over, and that nothing wakes, is stuck.
func TestStuck(t *testing.T) {
	paused := []workflow.Wait{{For: workflow.WaitResume, Path: "pay"}}
	timed := append([]workflow.Wait{{For: workflow.WaitTimer, Path: "nap", Until: 5}}, paused...)
	input := []byte{0}
	for _, tt := range []struct {
		state workflow.State
		input []byte
		waits []workflow.Wait
		want  bool
	}{
		{workflow.Pending, nil, nil, false},
		{workflow.Pending, input, nil, false},
		{workflow.Running, nil, nil, false}, // as RivetKit stores one without an input
		{workflow.Running, input, nil, false},
		{workflow.Running, input, paused, false}, // which it was before
		{workflow.RollingBack, input, nil, false},
		{workflow.Sleeping, nil, timed, true},
		{workflow.Sleeping, input, nil, false},
		{workflow.Sleeping, input, paused, true},
		{workflow.Sleeping, input, timed, false},
		{workflow.Sleeping, input, []workflow.Wait{}, true},
		{workflow.Failed, input, nil, false},
		{workflow.Failed, nil, paused, false},
		{workflow.Completed, input, nil, false},
		{workflow.Cancelled, nil, nil, false},
	} {
		s := workflow.Snapshot{State: tt.state, Input: tt.input, Rested: tt.waits}
		if got := s.Stuck(); got != tt.want {
			t.Errorf("%v with the input %v and %+v: got %v", tt.state, tt.input, tt.waits, got)
		}
	}
}
