package workflow

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestCancelStored: once a cancellation is stored nothing lands any more, even before Cancel
// stops the run.
func TestCancelStored(t *testing.T) {
	for _, when := range []string{"in a step", "in an undo", "between steps"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stored := make(chan struct{})
				r := newRigWith(t, Options{Observe: func(ch Change) {
					if ch.State == Cancelled {
						select {
						case <-stored:
							t.Errorf("it has changed after it was cancelled: %+v", ch)
						default:
							close(stored)
						}
					}
				}})
				begun := make(chan struct{})
				wait := func() {
					close(begun)
					<-stored
				}
				effect := func(_ context.Context, b *batch.Batch, _ int) error {
					wait()
					b.Put([]byte("\x04k"), []byte("done"))
					return nil
				}
				w := begin(r, func(c *Context, _ int) (int, error) {
					c.RollbackCheckpoint("from here")
					switch when {
					case "in a step":
						return stepIn(c, "s", nil, func(ctx context.Context, b *batch.Batch) (int, error) { return 1, effect(ctx, b, 1) })
					case "in an undo":
						if _, err := StepWith(c, "s", &StepOptions{Undo: undoIn(r, effect)}, work(r, "s", 1)); err != nil {
							return 0, err
						}
						return 0, errors.New("failed")
					}
					wait()
					return Step(c, "s", work(r, "effect", 1))
				}, 0)
				// Cancel is held up between its commit and the end of the run.
				var held atomic.Bool
				r.engine.Hook(func(op faultkv.Op) error {
					if op.Point == faultkv.AfterCommit {
						select {
						case <-stored:
							if held.CompareAndSwap(false, true) {
								synctest.Wait()
							}
						default:
						}
					}
					return nil
				})
				done := make(chan error, 1)
				go func() { done <- second(w.Live(ctx)) }()
				<-begun
				must(t, w.Cancel(ctx))
				wantErr(t, "live", <-done, ErrCancelled)
				r.engine.Hook(nil)
				if !held.Load() {
					t.Error("nothing was held up")
				}
				r.key("k", "")
				if when == "between steps" {
					r.wantDid()
				}
				r.same(w.Workflow)
			})
		})
	}
}
