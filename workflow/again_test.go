package workflow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
)

// againCode is a workflow that ends as its input says, after a step that notes its ID.
func againCode(r *rig, ids map[string]int) Func[string, string] {
	return func(c *Context, in string) (string, error) {
		err := Do(c, "work", func(ctx context.Context) error {
			info, _ := StepInfoOf(ctx)
			ids[info.ID]++
			r.do(in)
			return nil
		})
		switch {
		case in == "fail":
			err = errors.New("the end")
		case in == "wait":
			_, err = Receive[string](c, "go")
		}
		return in + " done", err
	}
}

// TestStartAgain: a workflow that is over, in whatever way, is not started by Start, which says so,
// and is by StartAgain: with nothing of the old history, and new IDs.
func TestStartAgain(t *testing.T) {
	for _, how := range []string{"complete", "fail", "cancel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				ids := map[string]int{}
				fn := againCode(r, ids)
				first := how
				if how == "cancel" {
					first = "wait"
				}
				w := begin(r, fn, first)
				must(t, w.Start(ctx, "other"))
				must(t, w.StartAgain(ctx, "other")) // it isn't over, and keeps its input
				_, err := w.Run(ctx)
				must(t, err)
				if !over(w.Status().State) {
					must(t, w.Start(ctx, "other"))
				}
				if how == "cancel" {
					must(t, w.Cancel(ctx))
				}
				ended := w.Status().State
				err = w.Start(ctx, "other")
				wantErr(t, "start", err, ErrOver)
				if !strings.Contains(err.Error(), ended.String()) || errors.Is(err, ErrCancelled) != (how == "cancel") {
					t.Errorf("start of a workflow that is %v: %v", ended, err)
				}
				if w = again(r, fn); w.Start(ctx, "other") == nil {
					t.Error("start after a restart: no error")
				}
				_, err = r.q.Enqueue(ctx, queue.Send{Name: "go", Body: "go"})
				must(t, err)
				r.wantDid(first)
				must(t, w.StartAgain(ctx, "wait"))
				if s := w.Status(); s.State != Pending || s.Failure != nil || len(w.Snapshot().Entries) > 0 {
					t.Errorf("%+v after StartAgain", s)
				}
				r.same(w.Workflow)
				w = again(r, fn)
				output(r, w, "wait done") // by the message that lay in the queue
				r.wantDid("wait")
				if len(ids) != 2 {
					t.Errorf("IDs %v, want two", ids)
				}
				r.same(w.Workflow)
			})
		})
	}
}

// TestStartAgainFaults fails each commit of StartAgain: the workflow is then what it was, or new.
func TestStartAgainFaults(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.AfterApply} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			fn := againCode(r, map[string]int{})
			w := begin(r, fn, "complete")
			status(r, w, Completed)
			fault := r.engine.Fail(faultkv.Rule{Point: point})
			wantErr(t, "start again", w.StartAgain(ctx, "second"), ErrStorage)
			fault.Remove()
			w = again(r, fn)
			r.same(w.Workflow)
			if s := w.Status(); s.State == Completed {
				must(t, w.StartAgain(ctx, "second"))
			}
			output(r, w, "second done")
			r.wantDid("complete", "second")
		})
	}
}

// TestStartAgainBusy: while the run of a cancelled workflow ends, it can't be started again, is over for Start, and
// what the old run leaves behind changes nothing of the new one.
func TestStartAgainBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		fn := func(c *Context, in string) (string, error) {
			return Step(c, "s", func(context.Context) (string, error) {
				if in == "slow" {
					<-release
				}
				return in, nil
			})
		}
		w := begin(r, fn, "slow")
		done := make(chan error, 1)
		go func() { _, err := w.Live(ctx); done <- err }()
		later(time.Second)
		must(t, w.Cancel(ctx))
		wantErr(t, "start again", w.StartAgain(ctx, "new"), ErrRunning)
		wantErr(t, "start", w.Start(ctx, "new"), ErrOver)
		wantErr(t, "live", <-done, ErrCancelled) // after the grace of the step
		must(t, w.StartAgain(ctx, "new"))
		close(release)
		output(r, w, "new")
		r.same(w.Workflow)
	})
}

// TestStartBusy: a start beside another one waits for it, and starts the workflow if that fails.
func TestStartBusy(t *testing.T) {
	for _, fails := range []error{nil, kv.ErrNotApplied} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			w := attach(r, func(_ *Context, in string) (string, error) { return in, nil })
			p := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Err: fails})
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- w.Start(ctx, "first") }()
			<-p.Reached()
			go func() { second <- w.Start(ctx, "second") }()
			synctest.Wait()
			select {
			case err := <-second:
				t.Errorf("the second start doesn't wait: %v", err)
			default:
			}
			p.Release()
			want := "first"
			if err := <-first; fails != nil {
				wantErr(t, "first start", err, ErrStorage)
				want = "second"
			} else {
				must(t, err)
			}
			must(t, <-second)
			output(r, w, want)
			r.same(w.Workflow)
		})
	}
}

// TestStartAgainClose: Close waits for a start that is under way, which the actor's clock and the next Workflow know.
func TestStartAgainClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := againCode(r, map[string]int{})
		w := begin(r, fn, "first")
		output(r, w, "first done")
		p := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		started, closed := make(chan error, 1), make(chan error, 2)
		go func() { started <- w.StartAgain(ctx, "second") }()
		<-p.Reached()
		for range cap(closed) { // the second one waits as well
			go func() { closed <- w.Close() }()
			synctest.Wait()
		}
		if n := len(closed); n > 0 {
			t.Errorf("%d Closes didn't wait", n)
		}
		p.Release()
		must(t, <-started)
		must(t, <-closed)
		must(t, <-closed)
		if r.clock.Next().IsZero() {
			t.Error("the clock doesn't know of the workflow")
		}
		w = attach(r, fn)
		output(r, w, "second done")
		r.wantDid("first", "second")
		r.same(w.Workflow)
	})
}
