package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// booking is a workflow whose steps are turns that touch everything an actor has. An input of
// true has it fail at its end, so that the step is undone.
func booking(c *workflow.Context, fail bool) (int, error) {
	c.RollbackCheckpoint("from here")
	undo := UndoTurn(func(c *Context, n int) error {
		_, err := c.Exec("delete from booked where n = ?", n)
		return errors.Join(err, c.Send(ear, queue.Send{Name: "word", Body: "given back"}))
	})
	n, err := StepTurnWith(c, "book", &workflow.StepOptions{Undo: undo, Backoff: time.Second, MaxAttempts: -1}, func(c *Context) (n int, err error) {
		if err := greenroom.Mutate(c, func(v *int) error { *v++; n = *v; return nil }); err != nil {
			return 0, err
		}
		_, made := c.Exec("create table if not exists booked(n)")
		_, put := c.Exec("insert into booked values(?)", n)
		return n, errors.Join(made, put, c.Send(ear, queue.Send{Name: "word", Body: n}), c.Broadcast("said", n))
	})
	if err == nil && fail {
		err = errRefused
	}
	return n, err
}

func bookingTypes() []*Type {
	kind := room(&diary{})
	kind.Actions = append(kind.Actions,
		NewCommand("book", func(c *Context, fail bool) error { return c.StartWorkflow(fail) }),
		NewAction("booked", func(c *Context, _ struct{}) (got [2]int, err error) {
			if got[0], err = greenroom.State[int](c); err != nil {
				return got, err
			}
			return got, c.QueryRow("select count(*) from booked").Scan(&got[1])
		}),
		NewAction("status", func(c *Context, _ struct{}) (string, error) {
			w, err := c.Workflow()
			if err != nil {
				return "", err
			}
			return w.Status().State.String(), nil
		}))
	kind.Workflow = NewWorkflow(booking, nil)
	return []*Type{kind, listener()}
}

// TestStepTurn fails each commit of a workflow whose step and undo are turns: what they do to
// SQL and state, and what they send, is done once.
func TestStepTurn(t *testing.T) {
	for _, fail := range []bool{false, true} {
		for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
			for skip, hit := 0, true; hit; skip++ {
				bubble(t, Options{}, func(r *rig) {
					s, _ := r.enterRoom("ann", true)
					before := len(s.names())
					fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
					for range 2 { // the first one may not have landed, and the second does nothing then
						_, _ = invoke[any](r.ctx, r.Host, lobby, "book", fail)
					}
					pass(10 * time.Minute)
					fault.Remove()
					hit = fault.Hits() > 0
					want, rows, heard := workflow.Completed, 1, []string{"1"}
					if fail {
						want, rows, heard = workflow.Failed, 0, []string{"1", "given back"}
					}
					if got, err := invoke[string](r.ctx, r.Host, lobby, "status", nil); err != nil || got != want.String() {
						t.Errorf("the workflow is %s, %v, want %s", got, err, want)
					}
					got, err := invoke[[2]int](r.ctx, r.Host, lobby, "booked", nil)
					must(t, err)
					if got != [2]int{1, rows} {
						t.Errorf("booked %v, want once, and %d rows", got, rows)
					}
					r.wantHeard(heard...)
					if n := len(s.names()) - before; n > 1 || !hit && n != 1 { // one whose host failed may be missed
						t.Errorf("%d events, want one", n)
					}
					if t.Failed() {
						t.Fatalf("fault %d at %v, fail %v", skip, point, fail)
					}
				}, bookingTypes()...)
			}
		}
	}
}

// TestStepTurnAlone: in a workflow that is not that of a Type the step fails.
func TestStepTurnAlone(t *testing.T) {
	r := newRig(t, Options{}, thing(add))
	defer r.close()
	a, err := r.Store().Actor(t.Context(), "alone", nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	_, err = greenroom.RunWorkflow(context.WithoutCancel(t.Context()), a, func(c *workflow.Context, _ int) (int, error) {
		return StepTurnWith(c, "s", &workflow.StepOptions{MaxAttempts: 1}, func(c *Context) (int, error) { return 1, nil })
	}, 0)
	wantErr(t, err, workflow.ErrFailed)
}
