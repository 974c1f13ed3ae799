package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// undo notes that a step was undone.
func (r *rig) undo(what string) Undo {
	return UndoStep(func(ctx context.Context, out int) error {
		info, _ := StepInfoOf(ctx)
		r.do("undo ", what, out, "#", info.Attempt)
		return nil
	})
}

// TestRollback: what was done is undone, the last first, in loops that are under way and in
// branches, too, and once.
func TestRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		step := func(c *Context, name string, n int) error {
			_, err := StepWith(c, name, &StepOptions{Undo: r.undo(name)}, work(r, name, n))
			return err
		}
		fn := func(c *Context, _ int) (int, error) {
			c.RollbackCheckpoint("from here")
			if err := step(c, "a", 1); err != nil {
				return 0, err
			}
			_, err := Join(c, "j", branchOf("x", func(c *Context) (int, error) { return 0, step(c, "b", 2) }),
				branchOf("y", func(c *Context) (int, error) {
					if err := step(c, "c", 3); err != nil {
						return 0, err
					}
					return 0, errors.New("branch fails")
				}))
			if err == nil {
				t.Error("the join did not fail")
			}
			_, err = Loop(c, "l", 0, func(c *Context, i *int) (int, bool, error) {
				if err := step(c, "d", 10+*i); err != nil {
					return 0, false, err
				}
				c.Sleep("pause", time.Hour)
				if *i++; *i == 3 {
					_, err := Step(c, "bad", func(context.Context) (int, error) { return 0, Permanent(errors.New("the end")) })
					return 0, false, err
				}
				return 0, false, nil
			})
			return 0, err
		}
		w := begin(r, fn, 0)
		for w.Status().State != Failed {
			s, err := w.Run(ctx)
			must(t, err)
			r.same(w.Workflow)
			if s.State == Sleeping {
				later(time.Until(s.Until))
				w = again(r, fn)
			}
		}
		r.mu.Lock()
		did := strings.Join(r.did, " ")
		r.did = nil
		r.mu.Unlock()
		if want := "d undo d12#1 undo c3#1 undo b2#1 undo a1#1"; !strings.HasSuffix(did, want) {
			t.Errorf("did %s, want %s at the end", did, want)
		}
		_, err := w.Output()
		if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "the end") {
			t.Errorf("output: %v", err)
		}
		w = again(r, fn)
		status(r, w, Failed)
		r.wantDid()
		e, _ := r.entry(w.Workflow, "a")
		if e.Metadata.RollbackCompletedAt == nil {
			t.Errorf("%+v", e.Metadata)
		}
	})
}

// TestUndoFails: what can't be undone stops the rollback, which goes on with the next run,
// and undoes nothing twice.
func TestUndoFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		broken := true
		var first *run
		fn := func(c *Context, _ int) (int, error) {
			first = cmp.Or(first, c.r)
			c.RollbackCheckpoint("from here")
			for i, name := range []string{"a", "b", "c"} {
				undo := r.undo(name)
				if name == "b" {
					undo = UndoStep(func(ctx context.Context, out int) error {
						r.do("try b")
						if broken {
							return errors.New("no way back")
						}
						return nil
					})
				}
				if _, err := StepWith(c, name, &StepOptions{Undo: undo}, work(r, name, i)); err != nil {
					return 0, err
				}
			}
			panic("no more")
		}
		w := begin(r, fn, 0)
		_, err := w.Run(ctx)
		var f *Failure
		if !errors.As(err, &f) || placeOf(err) != "b" || f.Message != "no way back" {
			t.Errorf("run: %v", err)
		}
		first.wakeDue() // its alarm rang before the code failed, and was held up
		if s := w.Status(); s.State != RollingBack || s.Failure == nil || r.clock.Next().IsZero() {
			t.Errorf("%+v, alarm %v", s, r.clock.Next())
		}
		r.wantDid("a", "b", "c", "undo c2#1", "try b", "try b", "try b", "try b")
		e, _ := r.entry(w.Workflow, "b")
		if e.Metadata.RollbackError == nil || e.Metadata.RollbackCompletedAt != nil {
			t.Errorf("%+v", e.Metadata)
		}
		r.same(w.Workflow)
		broken = false
		w = again(r, fn)
		_, err = w.Live(ctx)
		wantErr(t, "live", err, ErrPanic)
		r.wantDid("try b", "undo a0#1")
		status(r, w, Failed)
		r.same(w.Workflow)
	})
}

// TestUndoWithin: what an Undo stages lands with the record that it was done, and a failure of
// the store doesn't count as a failure of the Undo.
func TestUndoWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		add := func(b *batch.Batch, n int) error {
			v, err := r.actor.User().Get(ctx, []byte("sum"), nil)
			if len(v) == 0 {
				v, err = []byte{100}, nil
			}
			if err == nil {
				b.Put([]byte("\x04sum"), []byte{v[0] + byte(n)})
			}
			return err
		}
		fn := func(c *Context, _ int) (int, error) {
			c.RollbackCheckpoint("from here")
			for i := range 3 {
				undo := undoIn(r, func(_ context.Context, b *batch.Batch, n int) error { return add(b, -n) })
				_, err := stepIn(c, fmt.Sprint(i), &StepOptions{Undo: undo}, func(_ context.Context, b *batch.Batch) (int, error) { return i + 1, add(b, i+1) })
				if err != nil {
					return 0, err
				}
			}
			return 0, errors.New("no")
		}
		w := begin(r, fn, 0)
		for n := range 30 {
			r.engine.Fail(faultkv.Rule{Point: []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply}[n%2], Skip: 1})
			s, err := w.Run(ctx)
			if err == nil && s.State == Failed {
				break
			}
			wantErr(t, "run", err, ErrStorage)
			w = again(r, fn)
		}
		status(r, w, Failed)
		r.engine.Heal()
		r.key("sum", "d")
		r.same(w.Workflow)
	})
}

// TestRecover: failed steps are tried anew, in branches too, and undone ones are done again.
// The error is gone when the workflow succeeds.
func TestRecover(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprint("guarded ", guarded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				broken := true
				fn := func(c *Context, _ int) (int, error) {
					o := &StepOptions{}
					if guarded {
						c.RollbackCheckpoint("from here")
						o.Undo = r.undo("a")
					}
					if _, err := StepWith(c, "a", o, work(r, "a", 1)); err != nil {
						return 0, err
					}
					outs, err := Join(c, "j",
						branchOf("good", func(c *Context) (int, error) { return Step(c, "s", work(r, "good", 5)) }),
						branchOf("bad", func(c *Context) (int, error) {
							return Step(c, "s", func(context.Context) (int, error) {
								r.do("bad")
								if broken {
									return 0, Permanent(errors.New("boom"))
								}
								return 6, nil
							})
						}))
					if err != nil {
						return 0, err
					}
					return outs[0] + outs[1], nil
				}
				w := begin(r, fn, 0)
				wantErr(t, "recover", w.Recover(ctx), ErrState)
				status(r, w, Failed)
				r.same(w.Workflow)
				if w.Snapshot().Error == nil {
					t.Error("no error is recorded")
				}
				r.mu.Lock()
				r.did = nil
				r.mu.Unlock()
				broken = false
				w = again(r, fn)
				must(t, w.Recover(ctx))
				if s := w.Status(); s.State != Sleeping || s.Failure != nil {
					t.Errorf("%+v", s)
				}
				r.same(w.Workflow)
				output(r, w, 11)
				if guarded {
					r.wantDid("a", "bad")
				} else {
					r.wantDid("bad")
				}
				if s := w.Snapshot(); s.Error != nil {
					t.Errorf("it has completed, and has the error %v", s.Error)
				}
				r.same(w.Workflow)
				wantErr(t, "recover", w.Recover(ctx), ErrState)
			})
		})
	}
}

// TestUndoOptions: attempts, waits and timeouts of an Undo.
func TestUndoOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		tries := 0
		fn := func(c *Context, _ int) (int, error) {
			c.RollbackCheckpoint("from here")
			err := DoWith(c, "a", &StepOptions{
				Undo: UndoStep(func(ctx context.Context, _ struct{}) error {
					tries++
					<-ctx.Done()
					return context.Cause(ctx)
				}).With(UndoOptions{MaxAttempts: 3, Backoff: time.Hour, Timeout: time.Minute}),
			}, func(context.Context) error { return nil })
			return 0, errors.Join(err, errors.New("fails"))
		}
		w := begin(r, fn, 0)
		start := time.Now()
		_, err := w.Run(ctx)
		wantErr(t, "run", err, ErrStepTimeout)
		if took := time.Since(start); tries != 3 || took != 3*time.Minute+time.Hour+defaultMaxBackoff {
			t.Errorf("%d attempts in %v", tries, took)
		}
	})
}

// An Undo that ends its goroutine has failed, and ends no other goroutine.
func TestUndoGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		exits := true
		w := begin(r, func(c *Context, _ int) (int, error) {
			c.RollbackCheckpoint("from here")
			err := DoWith(c, "s", &StepOptions{Undo: UndoStep(func(context.Context, int) error {
				if exits {
					runtime.Goexit()
				}
				r.do("undone")
				return nil
			}).With(UndoOptions{MaxAttempts: 1})}, func(context.Context) error { return nil })
			return 0, cmp.Or(err, errors.New("failed"))
		}, 0)
		done := make(chan error, 1)
		go func() { done <- second(w.Live(ctx)) }()
		synctest.Wait()
		select {
		case err := <-done:
			if placeOf(err) != "s" || !errors.Is(err, errRollback) {
				t.Errorf("got error %v, want that of the undo of s", err)
			}
		default:
			t.Fatal("the undo has ended the goroutine of who runs the workflow")
		}
		exits = false
		wantErr(t, "live", second(w.Live(ctx)), ErrFailed)
		r.wantDid("undone")
	})
}

// TestUndoneAgain: a step that is done again after it was undone has a new ID, which is the
// same in its attempts, after a restart and in its undo. A step that failed, and was not undone, keeps its own.
func TestUndoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ids := map[string]string{} // short names, in the order in which IDs were seen
		note := func(ctx context.Context, what string) {
			info, _ := StepInfoOf(ctx)
			if ids[info.ID] == "" {
				ids[info.ID] = fmt.Sprint("id", len(ids)+1)
			}
			r.do(what, " ", ids[info.ID])
		}
		retry, pass := false, false
		fn := func(c *Context, _ int) (int, error) {
			c.RollbackCheckpoint("from here")
			o := &StepOptions{Backoff: time.Hour, Undo: UndoStep(func(ctx context.Context, _ int) error { note(ctx, "refund"); return nil })}
			if _, err := StepWith(c, "charge", o, func(ctx context.Context) (int, error) {
				if note(ctx, "charge"); retry {
					retry = false
					return 0, errors.New("the service is away")
				}
				return 1, nil
			}); err != nil {
				return 0, err
			}
			return Step(c, "ship", func(ctx context.Context) (int, error) {
				if note(ctx, "ship"); pass {
					return 2, nil
				}
				return 0, Permanent(errors.New("none left"))
			})
		}
		w := begin(r, fn, 0)
		status(r, w, Failed)
		r.wantDid("charge id1", "ship id2", "refund id1")
		must(t, w.Recover(ctx))
		r.same(w.Workflow)
		retry = true
		status(r, w, Sleeping)
		later(time.Hour)
		w = again(r, fn)
		status(r, w, Failed)
		r.wantDid("charge id3", "charge id3", "ship id2", "refund id3")
		w = again(r, fn)
		must(t, w.Recover(ctx))
		pass = true
		output(r, w, 2)
		r.wantDid("charge id4", "ship id2")
		r.same(w.Workflow)
	})
}
