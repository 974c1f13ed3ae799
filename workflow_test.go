package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// book is a workflow of two steps that change the actor, with a message between them.
func book(c *workflow.Context, what string) (string, error) {
	first, err := greenroom.StepTx(c, "first", func(tx *greenroom.Tx) (string, error) { return what, add(tx, what) })
	if err != nil {
		return "", err
	}
	m, err := workflow.ReceiveWith[string](c, "more", &workflow.ReceiveOptions{Names: []string{"m"}})
	if err != nil {
		return "", err
	}
	second, err := greenroom.StepTx(c, "second", func(tx *greenroom.Tx) (string, error) { return m.Body, add(tx, m.Body) })
	return first + second, err
}

// add does something with every part of an actor, which must be done once, and enqueues m.
func add(tx *greenroom.Tx, value string) error {
	if _, err := tx.Exec("create table if not exists t(a integer primary key, b)"); err != nil {
		return err
	}
	return write(tx, value)
}

// TestStepTxCrash stops a workflow after every commit of the engine, and has the next process
// end it: every step is done once, whatever it changes.
func TestStepTxCrash(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"whole": {AtomicBatches: 1 << 30}, "small commits": {AtomicBatches: 1, Entries: 64}} {
		t.Run(name, func(t *testing.T) {
			tape := engines.NewTape()
			ends := func(r *rig) {
				t.Helper()
				if out, err := greenroom.RunWorkflow(ctx, r.actor, book, "new"); err != nil || out != "newnew" {
					t.Errorf("the workflow returns %q, %v", out, err)
				}
				// The workflow received one of the messages that its steps enqueued.
				if got, want := r.holds(t), "2 rows, k=new, state new, e(new), 1 messages, 2 connections"; got != want {
					t.Errorf("the actor has %s, want %s", got, want)
				}
			}
			r := newRigOn(t, tape, limits)
			ends(r)
			ends(r) // again: it is over
			commits := tape.Len()
			for n := range commits {
				t.Run(fmt.Sprint(n), func(t *testing.T) { ends(newRigOn(t, tape.At(t, n), limits)) })
			}
			if commits < 5 {
				t.Errorf("there were %d commits", commits)
			}
		})
	}
}

// TestUndoTxCrash stops a workflow that gives up after every commit of the engine, and has the
// next process end it: what its steps have done is undone, the last first, each once.
func TestUndoTxCrash(t *testing.T) {
	note := func(tx *greenroom.Tx, what string) error {
		must(t, second(tx.Exec("create table if not exists u (what)")))
		must(t, second(tx.Exec("insert into u values (?)", what)))
		return greenroom.Mutate(tx, func(all *string) error { *all += what + " "; return nil })
	}
	fails := func(c *workflow.Context, _ int) (int, error) {
		c.RollbackCheckpoint("all")
		for _, name := range []string{"one", "two"} {
			undo := greenroom.UndoTx(func(tx *greenroom.Tx, out string) error { return note(tx, "un"+out) })
			if _, err := greenroom.StepTxWith(c, name, &workflow.StepOptions{Undo: undo}, func(tx *greenroom.Tx) (string, error) {
				return name, note(tx, name)
			}); err != nil {
				return 0, err
			}
		}
		return workflow.Step(c, "three", func(context.Context) (int, error) { return 0, workflow.Permanent(errors.New("no")) })
	}
	tape := engines.NewTape()
	ends := func(r *rig) {
		t.Helper()
		if _, err := greenroom.RunWorkflow(ctx, r.actor, fails, 0); !errors.Is(err, workflow.ErrFailed) {
			t.Errorf("the workflow returns %v", err)
		}
		r.update(t, func(tx *greenroom.Tx) error {
			state, err := greenroom.State[string](tx)
			must(t, err)
			var rows string
			must(t, tx.QueryRow("select group_concat(what, ' ') || ' ' from (select what from u order by rowid)").Scan(&rows))
			if want := "one two untwo unone "; state != want || rows != want {
				t.Errorf("done were %q by the state and %q by the rows, want %q", state, rows, want)
			}
			return nil
		})
	}
	ends(newRigOn(t, tape, batch.Limits{}))
	commits := tape.Len()
	for n := range commits {
		t.Run(fmt.Sprint(n), func(t *testing.T) { ends(newRigOn(t, tape.At(t, n), batch.Limits{})) })
	}
	if commits < 5 {
		t.Errorf("there were %d commits", commits)
	}
}

// TestRunWorkflowNested: within an Update of the actor no workflow of it is run, or begun.
func TestRunWorkflowNested(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, func(tx *greenroom.Tx) error {
		_, err := greenroom.RunWorkflow(tx, r.actor, book, "new")
		wantErr(t, "within an Update", err, greenroom.ErrNested)
		return create(tx)
	})
	must(t, r.actor.View(ctx, func(v *greenroom.View) error {
		if w, _, err := v.Workflow(); err != nil || w != nil && len(w.Entries) > 0 {
			t.Errorf("there is a workflow: %+v, %v", w, err)
		}
		return nil
	}))
}

// TestStepTx: a step that fails, panics or takes too long leaves nothing of its attempt.
func TestStepTx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		r.update(t, create)
		attempts := 0
		var during error
		out, err := greenroom.RunWorkflow(ctx, r.actor, func(c *workflow.Context, in int) (int, error) {
			return greenroom.StepTxWith(c, "step", &workflow.StepOptions{MaxAttempts: 5, Timeout: time.Second, RetryTimeouts: true},
				func(tx *greenroom.Tx) (int, error) {
					attempts++
					if info, ok := workflow.StepInfoOf(tx); !ok || int(info.Attempt) != attempts {
						t.Errorf("attempt %d is told %+v, %v", attempts, info, ok)
					}
					must(t, write(tx, "new"))
					switch attempts {
					case 1:
						return 0, errors.New("no")
					case 2:
						panic("boom")
					case 3:
						<-tx.Done()
						return 0, nil
					case 4:
						return 0, greenroom.SetState(tx, make([]byte, 200_000))
					}
					during = r.actor.Update(tx, create)
					return in + 1, nil
				})
		}, 6)
		if out != 7 || err != nil || attempts != 5 {
			t.Errorf("it returns %d, %v, after %d attempts", out, err, attempts)
		}
		wantErr(t, "an update within the step", during, greenroom.ErrNested)
		if got := r.holds(t); got != has(2, "new") {
			t.Errorf("the actor has %s", got)
		}
		out, err = greenroom.RunWorkflow(ctx, r.actor, func(c *workflow.Context, _ int) (int, error) { return 0, nil }, 6)
		if out != 7 || err != nil {
			t.Errorf("a workflow that is over returns %d, %v", out, err)
		}
	})
}

// TestStepTxFault: after a commit with an unknown outcome the step is done once, whichever it
// was.
func TestStepTxFault(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit} {
		r := newRig(t, batch.Limits{})
		r.update(t, create)
		step := func(c *workflow.Context, _ int) (int, error) {
			return greenroom.StepTx(c, "step", func(tx *greenroom.Tx) (int, error) {
				r.engine.Fail(faultkv.Rule{Point: point, Err: greenroom.ErrUnknownOutcome})
				return 1, write(tx, "new")
			})
		}
		_, err := greenroom.RunWorkflow(ctx, r.actor, step, 0)
		if err == nil {
			t.Errorf("%v: no error", point)
		}
		r.engine.Heal()
		r.open(t)
		out, err := greenroom.RunWorkflow(ctx, r.actor, func(c *workflow.Context, _ int) (int, error) {
			return greenroom.StepTx(c, "step", func(tx *greenroom.Tx) (int, error) { return 1, write(tx, "new") })
		}, 0)
		if out != 1 || err != nil {
			t.Errorf("%v: then it returns %d, %v", point, out, err)
		}
		if got := r.holds(t); got != has(2, "new") {
			t.Errorf("%v: the actor has %s", point, got)
		}
	}
}

// TestUpdater: steps are run by what their context says, and a workflow that no actor of the package runs says so.
func TestUpdater(t *testing.T) {
	r := newRig(t, batch.Limits{})
	updates := 0
	update := func(ctx context.Context, fn func(tx *greenroom.Tx) error) error {
		updates++
		return r.actor.Update(ctx, fn)
	}
	step := func(c *workflow.Context, _ int) (int, error) {
		return greenroom.StepTx(c, "step", func(tx *greenroom.Tx) (int, error) { return 1, tx.Put([]byte("k"), nil) })
	}
	w, err := greenroom.OpenWorkflow(ctx, r.actor, step, &greenroom.WorkflowOptions{
		Around: func(ctx context.Context, _ workflow.StepInfo, do func(context.Context) error) error {
			return do(opentx.Get[*greenroom.Actor, *greenroom.Tx]().WithUpdater(ctx, r.actor, update))
		},
	})
	must(t, err)
	must(t, w.Start(ctx, 0))
	if _, err := w.Live(ctx); err != nil || updates != 1 {
		t.Errorf("%d updates, %v", updates, err)
	}
	wantErr(t, "a second one", second(greenroom.OpenWorkflow(ctx, r.actor, step, nil)), greenroom.ErrInUse)
	must(t, w.Close())

	lower, err := r.store.Lower().Named(ctx, "lower", nil)
	must(t, err)
	bare, err := workflow.Open(ctx, lower, step, nil)
	must(t, err)
	must(t, bare.Start(ctx, 0))
	if _, err := bare.Live(ctx); err == nil {
		t.Error("a step changes an actor that doesn't run it")
	}
	must(t, bare.Close())
	must(t, lower.Close())
}

// TestWorkflowClose: Close ends the workflow, whose step that runs lands or not, the parts
// that the step uses being open until then, and a later call goes on.
func TestWorkflowClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		entered, leave := make(chan struct{}), make(chan struct{})
		var once sync.Once
		code := func(c *workflow.Context, _ int) (int, error) {
			return greenroom.StepTx(c, "step", func(tx *greenroom.Tx) (int, error) {
				once.Do(func() { close(entered); <-leave })
				return 1, create(tx)
			})
		}
		ran := make(chan error, 1)
		go func() {
			_, err := greenroom.RunWorkflow(ctx, r.actor, code, 0)
			ran <- err
		}()
		<-entered
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- r.actor.Close() }()
		}
		synctest.Wait()
		wantErr(t, "a workflow meanwhile", second(greenroom.OpenWorkflow(ctx, r.actor, code, nil)), greenroom.ErrClosed)
		close(leave)
		must(t, <-closed)
		must(t, <-closed)
		wantErr(t, "RunWorkflow", <-ran, workflow.ErrEvicted)
		wantErr(t, "RunWorkflow of a closed actor", second(greenroom.RunWorkflow(ctx, r.actor, code, 0)), greenroom.ErrClosed)
		r.open(t)
		if out, err := greenroom.RunWorkflow(ctx, r.actor, code, 0); out != 1 || err != nil {
			t.Errorf("then it returns %d, %v", out, err)
		}
		if got := r.holds(t); got != has(1, "old") {
			t.Errorf("the actor has %s", got)
		}
	})
}

// TestWorkflowAndRun: a workflow gets the messages that it waits for while Run calls handlers
// for others, and no warning comes of that.
func TestWorkflowAndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, memkv.New(), batch.Limits{})
		r.actor.Handle("other", note)
		end := r.runs(t)
		w, err := greenroom.OpenWorkflow(ctx, r.actor, book, nil)
		must(t, err)
		must(t, w.Start(ctx, "new"))
		r.update(t, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "other", Body: "x"})
			return err
		})
		out, err := w.Live(ctx)
		if synctest.Wait(); out != "newnew" || err != nil {
			t.Errorf("the workflow returns %q, %v", out, err)
		}
		if n := r.log.lines("no handler"); n != 0 || r.notes(t) != "other x 1;" {
			t.Errorf("%d warnings, handled %s", n, r.notes(t))
		}
		must(t, w.Close())
		must(t, end())
	})
}

// TestWorkflowInStep: a workflow that is run in a step of another actor's workflow changes
// its own actor.
func TestWorkflowInStep(t *testing.T) {
	r := newRig(t, batch.Limits{})
	other, err := r.store.Actor(ctx, "other", nil)
	must(t, err)
	inner := func(c *workflow.Context, in int) (int, error) {
		return greenroom.StepTx(c, "inner", func(tx *greenroom.Tx) (int, error) { return in, tx.Put([]byte("by"), []byte("inner")) })
	}
	out, err := greenroom.RunWorkflow(ctx, r.actor, func(c *workflow.Context, _ int) (int, error) {
		return workflow.Step(c, "outer", func(ctx context.Context) (int, error) { return greenroom.RunWorkflow(ctx, other, inner, 7) })
	}, 0)
	if err != nil || out != 7 {
		t.Errorf("got %d, %v", out, err)
	}
	for a, want := range map[*greenroom.Actor]error{r.actor: greenroom.ErrNotFound, other: nil} {
		must(t, a.View(ctx, func(v *greenroom.View) error {
			_, err := v.Get([]byte("by"))
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", a.Name(), err, want)
			}
			return nil
		}))
	}
	must(t, other.Close())
	for f, err := range r.store.Lower().Check(ctx) {
		t.Errorf("check: %v, %v", f, err)
	}
}
