package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// StartAgain starts a workflow that is over anew, with another input: one that has completed, has failed, or was cancelled.
// One commit removes the old history, output and error, and stores the input, in memory that doesn't grow with the history. All
// steps are done again, with new IDs, so that services do them again, too. What the old run has done stays, and so do the
// messages in the actor's queue, which the new run receives; one that the old run had received and not completed is in the
// queue again since its end.
//
// A workflow that was never started is started, and one that isn't over goes on with the input that it has, as with Start.
// Errors: ErrRunning while a run of a cancelled workflow ends, or Recover and its like are under way; ErrTooLarge, ErrClosed,
// ErrStorage, and those of the codec.
func (r *Runner[In, Out]) StartAgain(ctx context.Context, in In) error {
	return anew{r.Workflow}.commit(ctx, func(b *batch.Batch) error { return r.StageAgain(b, in) })
}

// Anew starts a workflow that is over anew.
type anew struct{ *Workflow }

// commit commits what stage stages.
func (w anew) commit(ctx context.Context, stage func(b *batch.Batch) error) error {
	var b batch.Batch
	defer b.Abort(nil)
	if err := stage(&b); err != nil {
		return err
	}
	if err := w.actor.Commit(ctx, &b); err != nil {
		if large := tooLarge(err); large != nil {
			return large
		}
		return controlError(err)
	}
	return nil
}

// StageAgain is StartAgain that lands with b, or not at all. The Workflow must not be run, nor be changed otherwise, between this
// call and the commit of b: else that fails, with ErrRunning or ErrState.
func (r *Runner[In, Out]) StageAgain(b *batch.Batch, in In) error {
	input, err := r.opts.Codec.Encode(cbor.Typed(in))
	if err != nil {
		return fmt.Errorf("workflow: input: %w", err)
	}
	return anew{r.Workflow}.stage(b, input)
}

// stage is Runner.StageAgain with an input that is encoded.
func (w anew) stage(b *batch.Batch, input []byte) (err error) {
	tx := w.h.Begin()
	switch {
	case over(State(w.h.State())):
		err = tx.Reset(true)
	case w.h.Input() != nil:
		return nil
	}
	if err == nil {
		err = tx.SetInput(input)
	}
	if large := tooLarge(err); large != nil {
		return large
	}
	if err != nil {
		return controlError(err)
	}
	tx.Stage(b)
	b.OnCommit(func() { w.meter.Count(metricStarted, 1) })
	b.Late(func(b *batch.Batch) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case w.closed:
			return ErrClosed
		case w.busy: // one that begins after this, while the commit lands, finds a workflow that is over
			return fmt.Errorf("%w: it can't be started again until that has ended", ErrRunning)
		}
		// Late of tx enlists what changes the memory; only after that may the workflow be told to run.
		b.OnCommit(func() {
			w.setRested(time.Time{})
			w.arming.Lock()
			defer w.arming.Unlock()
			w.due(w.clock.Now())
		})
		return nil
	})
	return nil
}
