package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// stepCommits is how many engine commits a step takes: its attempt, and its result.
// stepOutput is the size of what it returns. stepForgets is after how many iterations the
// loop of the steps forgets some.
const (
	stepCommits = 2
	stepOutput  = 100
	stepForgets = 20
)

// stepJob is workflow/step: a step of a workflow that runs, recorded before it is tried and
// with its result, two durable commits. The steps are those of a loop, one in each
// iteration, of which some are forgotten now and then, with the commit of a step.
func stepJob() job {
	return job{"workflow/step", "step/s", stepCommits, stepForgets, beginSteps}
}

// steps is an actor whose workflow stands in a step, between its two commits. When it goes
// on it asks by itself whether there is more to do: a switch between goroutines for each
// step would be the bench's own cost.
type steps struct {
	w      *workflow.Runner[int, int]
	stands chan struct{}    // sent to when the workflow stands in a step
	turns  chan func() bool // has it leave the step, and others as long as that says so
	over   chan error       // why the workflow has ended
	more   func() bool      // of the turn; the step's own
}

var errStepsEnded = errors.New("the workflow has ended")

func beginSteps(ctx context.Context, a *actorstore.Actor, i int) (shift, error) {
	s := &steps{stands: make(chan struct{}), turns: make(chan func() bool), over: make(chan error, 1)}
	output := make([]byte, stepOutput)
	noise(newRand(uint64(i)), output)
	step := func(ctx context.Context) ([]byte, error) {
		return output, s.goOn(ctx)
	}
	// It waits for its turn in the step, so an attempt may take long.
	opts := &workflow.StepOptions{Timeout: -1}
	code := func(c *workflow.Context, in int) (int, error) {
		return workflow.LoopWith(c, "loop", in, &workflow.LoopOptions{Commit: stepForgets}, func(c *workflow.Context, _ *int) (int, bool, error) {
			_, err := workflow.StepWith(c, "step", opts, step)
			return 0, false, err
		})
	}
	var err error
	s.w, err = workflow.Open(ctx, a, code, &workflow.Options{
		Logger: slog.New(slog.DiscardHandler), MaxEntries: -1, MaxBytes: -1,
	})
	if err != nil {
		return nil, err
	}
	if err := s.w.Start(ctx, 0); err != nil {
		return nil, errors.Join(err, s.w.Close())
	}
	go func() {
		_, err := s.w.Live(ctx)
		s.over <- errors.Join(errStepsEnded, err)
	}()
	if err := s.stand(ctx); err != nil {
		return nil, errors.Join(err, s.w.Close())
	}
	return s, nil
}

// goOn returns when the workflow may leave the step that it is in.
func (s *steps) goOn(ctx context.Context) error {
	if s.more != nil && s.more() {
		return nil
	}
	select {
	case s.stands <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case s.more = <-s.turns:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stand waits until the workflow stands in a step.
func (s *steps) stand(ctx context.Context) error {
	select {
	case <-s.stands:
		return nil
	case err := <-s.over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work has the workflow leave its step, and enter the next one, until there is no more.
func (s *steps) work(ctx context.Context, more func() bool) error {
	if !more() {
		return nil
	}
	select {
	case s.turns <- more:
		return s.stand(ctx)
	case err := <-s.over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *steps) close() error { return s.w.Close() }
