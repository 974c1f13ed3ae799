package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
)

// newSmallRig returns a rig in which an atomic commit is a single batch of 128 keys.
func newSmallRig(t testing.TB) *rig {
	t.Helper()
	r := newRig(t)
	r.limits.AtomicBatches = 1
	r.reopen()
	return r
}

// TestManyNames: names that go with no entry of their own don't make a commit too large.
func TestManyNames(t *testing.T) {
	for _, branches := range []int{30, 60, 200} {
		t.Run(fmt.Sprint(branches), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSmallRig(t)
				fn := func(c *Context, _ int) (int, error) {
					var bs []Branch[int]
					for i := range branches {
						bs = append(bs, Branch[int]{fmt.Sprint("branch ", i), func(c *Context) (int, error) {
							v := SideEffect(c, fmt.Sprint("drawn ", i), func() int { return i })
							c.Sleep(fmt.Sprint("pause ", i), time.Hour)
							return v, nil
						}})
					}
					all, err := Join(c, "join", bs...)
					return len(all), err
				}
				w := begin(r, fn, 0)
				s := status(r, w, Sleeping)
				later(time.Until(s.Until))
				w = again(r, fn)
				output(r, w, branches)
				r.same(w.Workflow)
			})
		})
	}
}

// TestManyMessages: of more messages than fit into one commit those are received that do.
func TestManyMessages(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSmallRig(t)
				const n = 60
				for i := range n {
					must(t, second(r.q.Enqueue(ctx, queue.Send{Name: "m", Body: fmt.Sprintf("%0*d", size, i)})))
				}
				w := begin(r, func(c *Context, _ int) (string, error) {
					got := 0
					_, err := LoopWith(c, "loop", 0, &LoopOptions{Keep: -1, Commit: 1}, func(c *Context, i *int) (int, bool, error) {
						ms, err := ReceiveAll[string](c, "all", &ReceiveOptions{Count: 1000})
						for _, m := range ms {
							if want := fmt.Sprintf("%0*d", size, got); m.Body != want {
								t.Errorf("got message %.20s, want %.20s", m.Body, want)
							}
							got++
						}
						return 0, got == n, err
					})
					return fmt.Sprint(got), err
				}, 0)
				output(r, w, fmt.Sprint(n))
				if r.q.Len() != 0 {
					t.Errorf("%d messages are left", r.q.Len())
				}
				r.same(w.Workflow)
			})
		})
	}
}

// TestRecoverMany: more steps than fit into one commit are tried anew, also when the store
// fails in between.
func TestRecoverMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150
		for skip := range 6 {
			r := newSmallRig(t)
			lucky := false
			fn := func(c *Context, _ int) (int, error) {
				done := 0
				_, err := Join(c, "join", Branch[int]{"one", func(c *Context) (int, error) {
					for i := range n {
						if DoWith(c, fmt.Sprint("s", i), &StepOptions{MaxAttempts: 1}, func(context.Context) error {
							if !lucky {
								return errors.New("no luck")
							}
							return nil
						}) == nil {
							done++
						}
					}
					return done, nil
				}})
				if err == nil && done < n {
					err = errors.New("not all are done")
				}
				return done, err
			}
			w := begin(r, fn, 0)
			status(r, w, Failed)
			fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: skip, Err: kv.ErrTooLarge})
			err := w.Recover(ctx)
			if fault.Remove(); fault.Hits() > 0 {
				wantErr(t, "recover", err, batch.ErrTooLarge)
				status(r, w, Failed)
				err = w.Recover(ctx)
			}
			must(t, err)
			lucky = true
			output(r, w, n)
			r.same(w.Workflow)
		}
	})
}

// TestResumeMany: more steps than fit into one commit get new attempts, in memory and not.
func TestResumeMany(t *testing.T) {
	for _, live := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const n = 100
			r := newSmallRig(t)
			var lucky atomic.Bool
			w := begin(r, func(c *Context, _ int) (int, error) {
				var bs []Branch[int]
				for i := range n {
					bs = append(bs, Branch[int]{fmt.Sprint("b", i), func(c *Context) (int, error) {
						return StepWith(c, "s", &StepOptions{MaxAttempts: 1, Pause: true}, func(context.Context) (int, error) {
							if !lucky.Load() {
								return 0, errors.New("no luck")
							}
							return 1, nil
						})
					}})
				}
				ones, err := Join(c, "join", bs...)
				return len(ones), err
			}, 0)
			done := make(chan error, 1)
			if live {
				go func() { done <- second(w.Live(ctx)) }()
				synctest.Wait()
			} else if s := status(r, w, Sleeping); len(s.Paused) != n {
				t.Errorf("%d steps are paused", len(s.Paused))
			}
			lucky.Store(true)
			must(t, w.Resume(ctx))
			if live {
				must(t, <-done)
			}
			output(r, w, n)
			r.same(w.Workflow)
		})
	}
}
