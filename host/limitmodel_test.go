package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/workflow"
)

// A storm is a host with workflows under limits to which all kinds of things happen.
type storm struct {
	*rig
	rnd   *rand.Rand
	start *Command[string]
	log   []string
}

// walker is a workflow of two steps, of 20 seconds each, and rests between them.
func walker(l *ledger) *Workflow {
	return NewWorkflow(func(c *workflow.Context, what string) (struct{}, error) {
		for i := range 2 {
			err := workflow.Do(c, fmt.Sprint("step", i), func(ctx context.Context) error {
				defer l.begin("a", what)()
				select {
				case <-time.After(20 * time.Second):
				case <-ctx.Done():
				}
				return ctx.Err()
			})
			if err != nil {
				return struct{}{}, err
			}
			c.Sleep(fmt.Sprint("rest", i), 30*time.Second)
		}
		return struct{}{}, nil
	}, nil)
}

// change is an action that starts the workflow in some way, in a turn that fails if how ends with a "!", or gives the actor a label.
func change(c *Context, how string) error {
	key := c.Address().Key
	switch how {
	case "start":
		return c.StartWorkflow(key)
	case "again":
		return c.StartWorkflowAgain(key)
	case "start!":
		return errors.Join(c.StartWorkflow(key), errRefused)
	case "again!":
		return errors.Join(c.StartWorkflowAgain(key), errRefused)
	}
	return c.Label("tenant", how)
}

// control does something to the workflow of an actor, which there may not be.
func (s *storm) control(a Address, fn func(ctx context.Context, w *workflow.Workflow) error) {
	_ = s.Visit(s.ctx, idOf(a), func(ctx context.Context, a *greenroom.Actor) error {
		return a.ControlWorkflow(ctx, func(w *workflow.Workflow) error { return fn(ctx, w) })
	})
}

// blow does one thing to one actor. It may be refused: what counts is what is there in the end.
func (s *storm) blow() {
	a := Address{"thing", fmt.Sprint("a-", s.rnd.IntN(6))}
	what := []string{"start", "start", "start", "start", "start", "again", "start!", "again!", "x", "y", "cancel", "restart", "replay", "destroy", "sleep", "reopen"}[s.rnd.IntN(16)]
	s.log = append(s.log, fmt.Sprint(time.Now().Format("15:04:05"), " ", what, " ", a.Key))
	switch what {
	case "cancel":
		s.control(a, func(ctx context.Context, w *workflow.Workflow) error { return w.Cancel(ctx) })
	case "restart":
		s.control(a, func(ctx context.Context, w *workflow.Workflow) error { return w.Restart(ctx) })
	case "replay":
		s.control(a, func(ctx context.Context, w *workflow.Workflow) error { return w.ReplayFrom(ctx, "step1") })
	case "destroy":
		_ = s.Destroy(s.ctx, a)
	case "sleep":
		_ = s.Sleep(s.ctx, idOf(a))
	case "reopen":
		s.reopen()
	default:
		_ = s.start.Call(s.ctx, s.Host, a.Key, what)
	}
	pass(time.Duration(s.rnd.IntN(20)) * time.Second)
}

// TestLimitModel: whatever happens to workflows and their actors, never are more of them at a step than the limits say; in the end all are over, and nothing of the limits is left.
func TestLimitModel(t *testing.T) {
	for seed := range uint64(testkit.Pick(6, 15, 500)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			l := newLedger()
			all := [][]*Limit{
				{{Name: "flows", Concurrency: 2, Fair: "tenant"}},
				{{Name: "flows", Concurrency: 2}, {Name: "rate", Rate: 4, Per: time.Minute, Burst: 2}},
				{{Name: "flows", Concurrency: 2}, {Name: "tenants", Label: "tenant", Concurrency: 1}},
			}[seed%3]
			s := &storm{rnd: rnd, start: NewCommand("start", change)}
			kind := &Type{Name: "thing", Workflow: walker(l), WorkflowLimits: all, Actions: []AnyAction{s.start}}
			s.rig = newRig(t, Options{IdleTimeout: []time.Duration{time.Second, 15 * time.Second, time.Hour}[rnd.IntN(3)], MaxAwake: []int{0, 3}[rnd.IntN(2)]}, kind)
			for range 60 {
				s.blow()
			}
			pass(time.Hour)
			for i := range 6 {
				s.control(Address{"thing", fmt.Sprint("a-", i)}, func(_ context.Context, w *workflow.Workflow) error {
					if at := w.Status(); !finished(at.State) && len(at.Waits) > 0 {
						t.Errorf("a-%d is %s: %+v", i, at.State, at.Waits)
					}
					return nil
				})
			}
			pass(3 * time.Hour)
			if n := s.limitRows(); n != 0 || l.most[""] > 2 {
				t.Errorf("%d rows of limits are left; at once %v", n, l.most)
			}
			if t.Failed() {
				t.Logf("seed %d, %+v: %v", seed, s.opts, s.log)
			}
			s.close()
		})
	}
}
