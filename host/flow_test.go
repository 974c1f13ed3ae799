package host

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// order is a workflow that books in the actor's database, sleeps, and waits for approval.
func order(c *workflow.Context, item string) (string, error) {
	n, err := greenroom.StepTx(c, "book", func(tx *greenroom.Tx) (n int, err error) {
		if _, err := tx.Exec("create table if not exists t(x)"); err != nil {
			return 0, err
		}
		if _, err := tx.Exec("insert into t values(?)", item); err != nil {
			return 0, err
		}
		return n, tx.QueryRow("select count(*) from t").Scan(&n)
	})
	if err != nil {
		return "", err
	}
	c.Sleep("cool down", 24*time.Hour)
	m, err := workflow.Receive[string](c, "approval")
	if err != nil {
		return "", err
	}
	if n != 1 {
		return "", errors.New("booked more than once")
	}
	return item + ", " + m.Body, nil
}

func orderThing() *Type {
	kind := wholeThing()
	kind.Actions = append(kind.Actions, NewCommand("order", func(c *Context, item string) error {
		return c.StartWorkflow(item)
	}))
	kind.Actions = append(kind.Actions, NewCommand("order and fail", func(c *Context, item string) error {
		return errors.Join(c.StartWorkflow(item), errRefused)
	}))
	kind.Actions = append(kind.Actions, NewAction("approve", func(c *Context, by string) (queue.ID, error) {
		return c.Enqueue(queue.Send{Name: "approval", Body: by})
	}))
	kind.Actions = append(kind.Actions, NewAction("status", func(c *Context, _ struct{}) (string, error) {
		w, err := c.Workflow()
		if err != nil {
			return "", err
		}
		return w.Status().State.String(), nil
	}))
	kind.Workflow = NewWorkflow(order, nil)
	return kind
}

func (r *rig) status(want workflow.State) {
	r.Helper()
	r.look() // it wakes the actor, whose workflow then runs as far as it comes
	synctest.Wait()
	got, err := invoke[string](r.ctx, r.Host, lobby, "status", nil)
	must(r, err)
	if got != want.String() {
		r.Errorf("the workflow is %s, want %s", got, want)
	}
}

func TestWorkflow(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "order and fail", "tea")
		wantErr(t, err, errRefused)
		_, err = invoke[any](r.ctx, r.Host, lobby, "order", 17)
		wantErr(t, err, ErrArgs)
		pass(time.Minute)
		r.status(workflow.Pending)
		_, err = invoke[any](r.ctx, r.Host, lobby, "order", "tea")
		must(t, err)
		pass(time.Hour)
		r.wantAsleep(1)
		r.status(workflow.Sleeping)
		r.reopen()
		pass(24 * time.Hour)
		if s := r.Stats(); s.Awake != 0 || s.Alarms != 0 {
			t.Errorf("%+v while the workflow waits for a message", s)
		}
		_, err = invoke[queue.ID](r.ctx, r.Host, lobby, "approve", "the boss")
		must(t, err)
		pass(time.Minute)
		r.status(workflow.Completed)
		if got := r.look(); got.Rows != 1 || got.Messages != 0 {
			t.Errorf("got %+v", got)
		}
	}, orderThing())
}

// TestWorkflowHoldsActor has a step take longer than the idle time.
func TestWorkflowHoldsActor(t *testing.T) {
	kind := thing(NewCommand("go", func(c *Context, _ struct{}) error {
		return c.StartWorkflow(nil)
	}))
	done := false
	kind.Workflow = NewWorkflow(func(c *workflow.Context, _ any) (int, error) {
		return 0, workflow.DoWith(c, "work", &workflow.StepOptions{Timeout: time.Hour}, func(ctx context.Context) error {
			select {
			case <-time.After(10 * time.Minute):
				done = true
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}, nil)
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "go", nil)
		must(t, err)
		pass(9 * time.Minute)
		if s := r.Stats(); s.Awake != 1 || s.Idle != 0 {
			t.Errorf("%+v during the step", s)
		}
		pass(2 * time.Minute)
		if s := r.Stats(); s.Awake != 0 || !done {
			t.Errorf("%+v after the step, done %v", s, done)
		}
	}, kind)
}

// inbox takes messages, and fails as often as they say.
func inbox(d *diary) *Type {
	kind := thing(add)
	kind.Queue = greenroom.QueueOptions{MaxReceive: 3}
	kind.MessageNames = []string{"work"}
	kind.Message = func(c *Context, m *greenroom.Message) error {
		var text string
		if err := m.Decode(&text); err != nil {
			return err
		}
		if err := greenroom.Mutate(c, func(n *int) error { *n++; return nil }); err != nil {
			return err
		}
		if text == "never" || text == "later" && m.Deliveries == 1 {
			return errRefused
		}
		if text == "answer" {
			d.write(text)
			return c.Complete(m.Receipt(), "thanks")
		}
		d.write(text)
		return nil
	}
	return kind
}

func TestMessages(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		send := func(text string, delay time.Duration) {
			t.Helper()
			_, err := r.Send(r.ctx, lobby, queue.Send{Name: "work", Body: text, Delay: delay})
			must(t, err)
		}
		send("later", 0)
		send("one", 0)
		send("never", 0)
		send("answer", 0)
		send("tomorrow", 24*time.Hour)
		synctest.Wait()
		d.want(t, "one", "answer")
		pass(10 * time.Minute)
		d.want(t, "one", "answer", "later")
		r.wantAsleep(1)
		pass(24 * time.Hour)
		d.want(t, "one", "answer", "later", "tomorrow")
		var names []string
		must(t, r.Do0(func(c *Context) error {
			ms, err := c.ReceiveWith(&queue.ReceiveOptions{Count: 10})
			for _, m := range ms {
				names = append(names, m.Name)
			}
			return err
		}))
		if !slices.Equal(names, []string{"work.dlq"}) {
			t.Errorf("%q are left, want the one that always failed", names)
		}
		if n := r.call(lobby, "add", 0); n != 4 {
			t.Errorf("the state is %d: turns that failed have landed", n)
		}
	}, inbox(&d))
}

func TestRun(t *testing.T) {
	kind := thing(add)
	ended := make(chan error, 10)
	kind.Run = func(ctx context.Context) (err error) {
		defer func() { ended <- err }()
		for {
			if err := Turn(ctx, func(c *Context) error {
				return greenroom.Mutate(c, func(n *int) error { *n++; return nil })
			}); err != nil {
				return err
			}
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ended = make(chan error, 10)
		r := newRig(t, Options{IdleTimeout: 25 * time.Second}, kind)
		r.call(lobby, "add", 0)
		pass(95 * time.Second) // its turns keep it awake
		if n := r.call(lobby, "add", 0); n != 10 {
			t.Errorf("the state is %d, want 10 turns", n)
		}
		r.close()
		wantErr(t, <-ended, context.Canceled)
	})
	wantErr(t, Turn(t.Context(), nil), ErrNotAwake)
}

// TestVars has things in memory live as long as the actor is.
func TestVars(t *testing.T) {
	var closed atomic.Int32
	kind := thing(NewAction("next", func(c *Context, _ struct{}) (int, error) {
		v := c.Vars().(*vars)
		v.n++
		return v.n, nil
	}))
	kind.Vars = func(_ context.Context, a Address) (any, error) {
		if a.Key == "broken" {
			return nil, errRefused
		}
		return &vars{closed: &closed}, nil
	}
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "next", nil)
		if n := r.call(lobby, "next", nil); n != 2 || closed.Load() != 0 {
			t.Errorf("got %d, closed %d", n, closed.Load())
		}
		pass(time.Minute)
		if n := r.call(lobby, "next", nil); n != 1 || closed.Load() != 1 {
			t.Errorf("after it has slept: got %d, closed %d", n, closed.Load())
		}
		_, err := invoke[int](r.ctx, r.Host, Address{"thing", "broken"}, "next", nil)
		wantErr(t, err, errRefused)
	}, kind)
}

type vars struct {
	n      int
	closed *atomic.Int32
}

func (v *vars) Close() error {
	v.closed.Add(1)
	return nil
}

// TestWorkflowDueAsItSleeps: a workflow whose time comes while its actor goes to sleep, too
// late for a run, goes on when the actor has left memory.
func TestWorkflowDueAsItSleeps(t *testing.T) {
	var d diary
	kind := thing(NewCommand("begin", func(c *Context, _ struct{}) error { return c.StartWorkflow(1) }))
	kind.Sleep = func(*Context) error { <-time.After(15 * time.Second); return nil }
	kind.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) {
		c.Sleep("nap", DefaultIdleTimeout+10*time.Second)
		return n, workflow.Do(c, "last", func(context.Context) error { d.write("done"); return nil })
	}, nil)
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, lobby, "begin", nil)
		must(t, err)
		pass(time.Hour)
		d.want(t, "done")
		if s := r.Stats(); s != (Stats{}) {
			t.Errorf("%+v is left", s)
		}
	}, kind)
}

// TestStartEventLeft: to start a workflow that is over is an error as well while the event that started it
// hasn't ended, because its last commit fails.
func TestStartEventLeft(t *testing.T) {
	var runs atomic.Int32
	kind := thing(
		NewCommand("start", func(c *Context, n int) error { return c.StartWorkflow(n) }),
		NewAction("wake", func(*Context, struct{}) (int, error) { return 0, nil }))
	kind.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) {
		return n, workflow.Do(c, "run", func(context.Context) error { runs.Add(1); return nil })
	}, nil)
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "wake", nil)
		var writes atomic.Int32 // of the record: of the event, and of its end, which is refused
		r.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit && slices.ContainsFunc(op.Commit.Ops, func(o kv.Op) bool {
				_, key, _ := actorstore.RowOwner(o.Key)
				return bytes.Equal(key, actorstore.AppendPersist(nil))
			}) && writes.Add(1) == 2 {
				return kv.ErrNotApplied
			}
			return nil
		})
		start := func(n int) error {
			_, err := invoke[any](r.ctx, r.Host, lobby, "start", n)
			return err
		}
		must(t, start(1))
		pass(10 * time.Millisecond) // the event is tried again later than that
		if n := writes.Load(); n != 2 {
			t.Errorf("the record was written %d times", n)
		}
		wantErr(t, start(100), workflow.ErrOver)
		pass(time.Minute)
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
	}, kind)
}

// TestStartAgain: to start a workflow that is over is an error, and StartWorkflowAgain does it once, whichever commit fails.
func TestStartAgain(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
		for skip, hit := 0, true; hit; skip++ {
			var did atomic.Int32
			kind := thing(
				NewCommand("start", func(c *Context, n int) error { return c.StartWorkflow(n) }),
				NewCommand("again", func(c *Context, n int) error { return c.StartWorkflowAgain(n) }),
				NewAction("output", func(c *Context, _ struct{}) (n int, err error) { return greenroom.State[int](c) }))
			kind.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) {
				err := workflow.Do(c, "work", func(context.Context) error { return nil })
				if err != nil {
					return 0, err
				}
				return StepTurn(c, "s", func(c *Context) (int, error) {
					c.AfterCommit(func() { did.Add(1) })
					return n, greenroom.Mutate(c, func(v *int) error { *v += n; return nil })
				})
			}, nil)
			bubble(t, Options{}, func(r *rig) {
				invoke := func(action string, n int) error {
					_, err := invoke[any](r.ctx, r.Host, lobby, action, n)
					return err
				}
				must(t, invoke("start", 1))
				pass(time.Minute)
				base := r.call(lobby, "output", nil)
				err := invoke("start", 100)
				wantErr(t, err, workflow.ErrOver)
				if Code(err) != "workflow_over" {
					t.Errorf("code %q", Code(err))
				}
				wantErr(t, invoke("again", 0), nil)
				pass(time.Minute)
				did.Store(0)
				fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
				err = invoke("again", 10)
				pass(10 * time.Minute)
				fault.Remove()
				hit = fault.Hits() > 0
				got := r.call(lobby, "output", nil) - base
				if got != 10 && (err == nil || got != 0) {
					t.Errorf("fault %d at %v: %d after %v", skip, point, got, err)
				}
				if n := did.Load(); n > 1 || got == 0 && n > 0 {
					t.Errorf("fault %d at %v: done %d times", skip, point, n)
				}
			}, kind)
		}
	}
}
