package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/limits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
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

// TestLimitRenamed: where a program has another limit, or none, than before, actors that sleep in the line of the old one don't wait for it, and nothing of it is left.
func TestLimitRenamed(t *testing.T) {
	for _, flows := range []bool{false, true} {
		for _, now := range [][]*Limit{nil, {{Name: "new", Concurrency: 2}}} {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger()
				kind := func(all ...*Limit) []*Type {
					if flows {
						return []*Type{{Name: "thing", Workflow: napper(l), WorkflowLimits: all}}
					}
					return []*Type{limited(l, 1, all...)}
				}
				r := newRig(t, Options{IdleTimeout: time.Second}, kind(&Limit{Name: "old", Concurrency: 1})...)
				for _, a := range []string{"a-1", "a-2", "a-3", "a-4", "a-5"} {
					if flows {
						must(t, testkit.Second(r.StartWorkflow(r.ctx, Address{"thing", a}, a)))
					} else {
						r.jobs(1, a)
					}
				}
				pass(10 * time.Second)
				r.close()
				r.types = kind(now...)
				r.open()
				pass(4 * time.Minute)
				seen := map[string]bool{}
				l.look(func() {
					for _, what := range l.begun {
						seen[what[:3]] = true
					}
					if most := l.most[""]; len(seen) != 5 || !flows && now != nil && most > 2 {
						t.Errorf("begun %v, at once %d", l.begun, most)
					}
				})
				pass(2 * time.Hour)
				for _, name := range []string{"old", "new"} {
					for e, err := range limitRows(r.ctx, r.engine, name) {
						t.Errorf("left is %x, %v", e.Key, err)
					}
				}
				r.close()
			})
		}
	}
}

// TestLimitPowerLoss: a token is stored before the work for which it was taken begins, so that a machine that loses its memory at any time doesn't give it again.
func TestLimitPowerLoss(t *testing.T) {
	for _, flows := range []bool{false, true} {
		for seed := range uint64(testkit.Pick(3, 5, 100)) {
			disk, begun := pebblekv.NewCrashDisk(), make(chan struct{}, 2)
			kind, all := &Type{Name: "thing"}, []*Limit{{Name: "one", Concurrency: 1}, {Name: "calls", Rate: 1, Per: time.Hour, Burst: 2}}
			if flows {
				kind.WorkflowLimits = all
				kind.Workflow = NewWorkflow(func(c *workflow.Context, _ string) (struct{}, error) {
					return struct{}{}, workflow.Do(c, "call", func(context.Context) error { begun <- struct{}{}; return nil })
				}, nil)
			} else {
				kind.Limits = all
				kind.Work = &Work{Do: func(context.Context, *queue.Message) (func(*Context) error, error) {
					begun <- struct{}{}
					return nil, nil
				}}
			}
			engine, err := disk.Open(nil)
			must(t, err)
			h, err := Open(t.Context(), engine, []*Type{kind}, &Options{Logger: quiet})
			must(t, err)
			for _, key := range []string{"a", "b"} {
				if at := (Address{"thing", key}); flows {
					must(t, testkit.Second(h.StartWorkflow(t.Context(), at, key)))
				} else {
					must(t, testkit.Second(h.Send(t.Context(), at, queue.Send{Name: "job"})))
				}
			}
			<-begun
			<-begun
			crashed, err := disk.Crash(0, rand.New(rand.NewPCG(seed, 28))).Open(nil)
			must(t, err)
			for info, err := range limits.List(t.Context(), crashed, "calls", nil) {
				if must(t, err); time.Until(info.Full) < 90*time.Minute {
					t.Errorf("seed %d, workflows %v: a token is there again in %v", seed, flows, time.Until(info.Full))
				}
			}
			must(t, errors.Join(crashed.Close(), h.Close(t.Context()), engine.Close()))
		}
	}
}
