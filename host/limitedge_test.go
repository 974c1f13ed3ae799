package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestLimitOrder: types that share limits don't wait for each other's permits for ever, in whichever order they name them.
func TestLimitOrder(t *testing.T) {
	l := newLedger()
	x, y := &Limit{Name: "x", Concurrency: 1}, &Limit{Name: "y", Concurrency: 1}
	one, other := limited(l, 1, x, y), limited(l, 1, y, x)
	other.Name = "other"
	bubble(t, Options{IdleTimeout: time.Hour}, func(r *rig) {
		for i := range 4 {
			for _, name := range []string{"thing", "other"} {
				key := fmt.Sprint(name[:1], "-", i)
				_, err := r.Send(r.ctx, Address{name, key}, queue.Send{Name: "job", Body: key})
				must(t, err)
			}
		}
		pass(8*time.Minute + time.Second)
	}, one, other)
	l.look(func() {
		if l.most[""] != 1 || len(l.done) != 8 {
			t.Errorf("at once %v, done %v", l.most, l.done)
		}
	})
}

// TestLimitPurged: actors whose messages are gone when their turn comes don't hold up the others, again and again.
func TestLimitPurged(t *testing.T) {
	l := newLedger()
	kind := limited(l, 1, &Limit{Name: "models", Concurrency: 1})
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		r.jobs(1, "a-0")
		pass(time.Millisecond)
		for i := 1; i < 6; i++ {
			r.jobs(1, fmt.Sprint("a-", i))
		}
		pass(10 * time.Second)
		r.jobs(1, "b-1")
		for i := 1; i < 6; i++ {
			must(t, r.Visit(r.ctx, idOf(Address{"thing", fmt.Sprint("a-", i)}), func(ctx context.Context, a *greenroom.Actor) error {
				q, err := a.Queue(ctx)
				if err != nil {
					return err
				}
				n, err := q.Purge(ctx, "job")
				if n != 1 {
					t.Errorf("purged %d", n)
				}
				return err
			}))
		}
		pass(4 * time.Minute)
		l.look(func() {
			if len(l.done) != 2 || l.times[1].Sub(l.times[0]) != time.Minute {
				t.Errorf("begun %v at %v", l.begun, l.times)
			}
		})
		pass(5 * time.Minute)
		if n := r.limitRows(); n != 0 {
			t.Errorf("%d rows of limits are left", n)
		}
	}, kind)
}

// napper is a workflow that notes that it has begun, and sleeps for a minute.
func napper(l *ledger) *Workflow {
	return NewWorkflow(func(c *workflow.Context, what string) (struct{}, error) {
		err := workflow.Do(c, "begin", func(context.Context) error {
			l.begin("a", what)()
			return nil
		})
		c.Sleep("rest", time.Minute)
		return struct{}{}, err
	}, nil)
}

// TestLimitFailedStart: a turn that starts a workflow anew, and fails, doesn't take the place in the line from the workflow, which waits.
func TestLimitFailedStart(t *testing.T) {
	l := newLedger()
	start := NewCommand("start", func(c *Context, fail bool) error {
		if fail {
			return errors.Join(c.StartWorkflowAgain(c.Address().Key), errRefused)
		}
		return c.StartWorkflow(c.Address().Key)
	})
	kind := &Type{Name: "thing", Workflow: napper(l), WorkflowLimits: []*Limit{{Name: "flows", Concurrency: 1}}, Actions: []AnyAction{start}}
	bubble(t, Options{IdleTimeout: time.Hour}, func(r *rig) {
		for _, key := range []string{"a-0", "a-1", "a-2"} {
			must(t, start.Call(r.ctx, r.Host, key, false))
			pass(time.Second)
		}
		wantErr(t, start.Call(r.ctx, r.Host, "a-1", true), errRefused)
		pass(10 * time.Minute)
		l.look(func() {
			if !slices.Equal(l.begun, []string{"a-0", "a-1", "a-2"}) || l.times[1].Sub(l.times[0]) != time.Minute {
				t.Errorf("begun %v at %v", l.begun, l.times)
			}
		})
	}, kind)
}

// TestLimitFullDisk: a workflow that is over while nothing can be stored gives its permit back when there is space again, although its actor stays awake.
func TestLimitFullDisk(t *testing.T) {
	l := newLedger()
	start := NewCommand("start", func(c *Context, _ struct{}) error { return c.StartWorkflow(c.Address().Key) })
	kind := &Type{Name: "thing", Workflow: napper(l), WorkflowLimits: []*Limit{{Name: "flows", Concurrency: 1}}, Actions: []AnyAction{start}}
	bubble(t, Options{IdleTimeout: 5 * time.Hour}, func(r *rig) {
		for _, key := range []string{"a-0", "a-1"} {
			must(t, start.Call(r.ctx, r.Host, key, struct{}{}))
			pass(time.Second)
		}
		d := r.limits.enter(r.limits.named["flows"], "")
		defer d.leave()
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: faultkv.Key(d.Key()), Times: faultkv.Forever, Err: errkind.ErrNoSpace})
		pass(2 * time.Minute)
		r.engine.Heal()
		pass(2 * time.Minute)
		l.look(func() {
			if !slices.Equal(l.begun, []string{"a-0", "a-1"}) {
				t.Errorf("begun %v at %v", l.begun, l.times)
			}
		})
	}, kind)
}
