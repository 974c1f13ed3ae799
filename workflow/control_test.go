package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
)

// TestCancel: a cancellation is for ever, whatever was under way.
func TestCancel(t *testing.T) {
	for _, when := range []string{"before", "in a step", "in a step that doesn't obey", "asleep", "in memory", "while rolling back"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				begun := make(chan struct{})
				release := make(chan struct{})
				fn := func(c *Context, _ int) (int, error) {
					c.RollbackCheckpoint("from here")
					_, err := stepIn(c, "s", &StepOptions{Undo: UndoStep(func(ctx context.Context, _ int) error {
						close(begun)
						<-ctx.Done()
						return ctx.Err()
					})}, func(ctx context.Context, b *batch.Batch) (int, error) {
						b.Put([]byte("\x04k"), []byte("done"))
						switch when {
						case "in a step":
							close(begun)
							<-ctx.Done()
						case "in a step that doesn't obey":
							close(begun)
							<-release
						}
						return 1, nil
					})
					if when == "while rolling back" {
						return 0, errors.New("failed")
					}
					c.Sleep("long", time.Hour)
					return 1, err
				}
				w := begin(r, fn, 0)
				done := make(chan error, 1)
				switch when {
				case "before":
					done <- ErrCancelled
				case "asleep":
					status(r, w, Sleeping)
					done <- ErrCancelled
				case "in memory":
					go func() { done <- second(w.Live(ctx)) }()
					later(time.Minute)
				default:
					go func() { done <- second(w.Live(ctx)) }()
					<-begun
				}
				must(t, w.Cancel(ctx))
				must(t, w.Cancel(ctx))
				close(release)
				wantErr(t, "live", <-done, ErrCancelled)
				synctest.Wait()
				if when == "in a step" || when == "in a step that doesn't obey" {
					r.key("k", "")
				}
				status(r, w, Cancelled)
				r.same(w.Workflow)
				w = again(r, fn)
				status(r, w, Cancelled)
				wantErr(t, "live", second(w.Live(ctx)), ErrCancelled)
				wantErr(t, "recover", w.Recover(ctx), ErrCancelled)
				wantErr(t, "start", w.Start(ctx, 1), ErrCancelled)
				wantErr(t, "replay", w.ReplayFrom(ctx, "s"), ErrCancelled)
				if !r.clock.Next().IsZero() {
					t.Error("the alarm is set")
				}
			})
		})
	}
}

func TestCancelTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := begin(r, func(*Context, int) (int, error) { return 1, nil }, 0)
		status(r, w, Completed)
		wantErr(t, "cancel", w.Cancel(ctx), ErrState)
		status(r, w, Completed)
	})
}

func TestReplayFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := 0
		fn := func(c *Context, _ int) (string, error) {
			step := func(c *Context, name string) (int, error) {
				n++
				later(time.Millisecond) // so that the order is that of time
				return Step(c, name, work(r, name, n))
			}
			a, err := step(c, "a")
			if err != nil {
				return "", err
			}
			sum, err := Loop(c, "l", 0, func(c *Context, s *int) (int, bool, error) {
				v, err := step(c, "in")
				*s += v
				return *s, *s > 4, err
			})
			if err != nil {
				return "", err
			}
			outs, err := Join(c, "j", branchOf("x", func(c *Context) (int, error) { return step(c, "bx") }))
			if err != nil {
				return "", err
			}
			return fmt.Sprint(a > 0, sum > 0, outs[0] > 0), nil
		}
		w := begin(r, fn, 0)
		output(r, w, "true true true")
		r.wantDid("a", "in", "in", "bx")
		n = 0
		for _, c := range []struct {
			from string
			want []string
		}{
			{"j/x/bx", []string{"bx"}},
			{"l[1]/in", []string{"in", "in", "bx"}},
			{"a", []string{"a", "in", "in", "bx"}},
		} {
			n = 0
			w = again(r, fn)
			must(t, w.ReplayFrom(ctx, c.from))
			r.same(w.Workflow)
			if s := w.Snapshot(); s.State != Sleeping || s.Output != nil {
				t.Errorf("%v, output %x", s.State, s.Output)
			}
			output(r, w, "true true true")
			r.mu.Lock()
			got := fmt.Sprint(r.did)
			r.did = nil
			r.mu.Unlock()
			if c.from == "l[1]/in" {
				if got != "[in in bx]" && got != "[in bx]" {
					t.Errorf("from %s: did %s", c.from, got)
				}
			} else if got != fmt.Sprint(c.want) {
				t.Errorf("from %s: did %s, want %s", c.from, got, c.want)
			}
			r.same(w.Workflow)
		}
		wantErr(t, "replay", w.ReplayFrom(ctx, "l"), ErrNoStep)
		wantErr(t, "replay", w.ReplayFrom(ctx, "nothing"), ErrNoStep)
		e, _ := r.entry(w.Workflow, "a")
		must(t, w.ReplayFrom(ctx, e.ID))
		if got := r.paths(w.Workflow); len(got) != 0 {
			t.Errorf("%q are left", got)
		}
	})
}

// TestReplayOrder: what happened later is forgotten, too, where times don't say so: in the
// same millisecond, and after the clock was set back.
func TestReplayOrder(t *testing.T) {
	for _, back := range []time.Duration{0, 10 * time.Second} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(back, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					var set atomic.Int64
					slow := func() {
						r.clock.Close()
						r.clock = alarm.New(&alarm.Options{Now: func() time.Time { return time.Now().Add(-time.Duration(set.Load())) }})
					}
					slow()
					fn := func(c *Context, _ int) (int, error) {
						// The names get their numbers here, in another order than that below.
						_, err := Loop(c, "l", 0, func(c *Context, _ *int) (int, bool, error) {
							_, err := Step(c, "second", work(r, "in loop", 1))
							return 0, true, err
						})
						if err != nil {
							return 0, err
						}
						if _, err := Step(c, "first", work(r, "first", 1)); err != nil {
							return 0, err
						}
						if restart {
							c.Sleep("wait", time.Nanosecond)
						}
						set.Store(int64(back))
						_, err = Step(c, "second", work(r, "second", 1))
						return 0, err
					}
					w := begin(r, fn, 0)
					if restart {
						r.opts.ShortWait = -1
						must(t, w.Close())
						w = attach(r, fn)
						status(r, w, Sleeping)
						r.reopen()
						slow()
						later(time.Millisecond)
						w = attach(r, fn)
					}
					output(r, w, 0)
					r.wantDid("in loop", "first", "second")
					must(t, w.ReplayFrom(ctx, "first"))
					output(r, w, 0)
					r.wantDid("first", "second")
					r.same(w.Workflow)
				})
			})
		}
	}
}

// TestResumeWaiting: Resume has a step that waits for its next attempt be tried at once.
func TestResumeWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) {
			return StepWith(c, "s", &StepOptions{Backoff: time.Hour, MaxBackoff: time.Hour}, func(ctx context.Context) (int, error) {
				if len(r.did) == 0 {
					r.do("fail")
					return 0, errors.New("no")
				}
				return 1, nil
			})
		}
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		must(t, w.Resume(ctx))
		start := time.Now()
		status(r, w, Completed)
		if time.Since(start) != 0 {
			t.Error("it waited")
		}
	})
}

// TestAttach: a program without the code can look at a workflow and control it.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fn := func(c *Context, _ int) (int, error) { c.Sleep("s", time.Hour); return 1, nil }
		w := begin(r, fn, 0)
		status(r, w, Sleeping)
		r.reopen()
		a, err := Attach(ctx, r.actor, &Options{Env: part.Env{Clock: r.clock}})
		must(t, err)
		if a.Status().State != Sleeping || len(a.Snapshot().Entries) != 1 {
			t.Errorf("%+v", a.Status())
		}
		if r.clock.Next().IsZero() {
			t.Error("nobody would wake the workflow")
		}
		_, err = a.execute(ctx, false)
		wantErr(t, "run", err, ErrState)
		must(t, a.Cancel(ctx))
		must(t, a.Close())
	})
}

// TestClose ends a run.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		w := begin(r, func(c *Context, _ int) (int, error) { c.Sleep("s", time.Hour); return 1, nil }, 0)
		done := make(chan error)
		go func() { done <- second(w.Live(ctx)) }()
		synctest.Wait()
		go func() { must(t, w.Close()) }()
		wantErr(t, "live", <-done, ErrEvicted)
		synctest.Wait()
		if at := r.clock.Next(); time.Until(at) != time.Hour {
			t.Errorf("to be woken in %v", time.Until(at))
		}
	})
}
