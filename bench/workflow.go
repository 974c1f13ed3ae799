package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// stepCommits is how many engine commits a step takes: its attempt, and its result.
// stepOutput is the size of what it returns.
const (
	stepCommits = 2
	stepOutput  = 100
)

// stepJob is workflow/step: a step of a workflow that runs, recorded before it is tried and
// with its result, two durable commits. The steps are those of a loop, one in each
// iteration, and the loop keeps them all: to forget some is a commit of its own.
func stepJob() job {
	return job{"workflow/step", "step/s", stepCommits, workflow.DefaultCommit, beginSteps}
}

// steps is an actor whose workflow stands in a step, between its two commits.
type steps struct {
	w      *workflow.Runner[int, int]
	stands chan struct{} // sent to when the workflow is in a step
	goOn   chan struct{} // has it leave the step
	over   chan error    // why the workflow has ended
}

var errStepsEnded = errors.New("the workflow has ended")

func beginSteps(ctx context.Context, a *actorstore.Actor, i int) (shift, error) {
	s := &steps{stands: make(chan struct{}), goOn: make(chan struct{}), over: make(chan error, 1)}
	output := make([]byte, stepOutput)
	noise(newRand(uint64(i)), output)
	step := func(ctx context.Context) ([]byte, error) {
		if err := s.swap(ctx, s.stands, s.goOn); err != nil {
			return nil, err
		}
		return output, nil
	}
	// It waits for its turn in the step, so an attempt may take long.
	opts := &workflow.StepOptions{Timeout: -1}
	code := func(c *workflow.Context, in int) (int, error) {
		return workflow.Loop(c, "loop", in, func(c *workflow.Context, _ *int) (int, bool, error) {
			_, err := workflow.Step(c, "step", step, opts)
			return 0, false, err
		}, nil)
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

// swap sends to one channel and then receives from the other.
func (s *steps) swap(ctx context.Context, to chan<- struct{}, from <-chan struct{}) error {
	select {
	case to <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-from:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stand waits until the workflow is in a step.
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

// do has the workflow leave its step, and enter the next one.
func (s *steps) do(ctx context.Context) error {
	select {
	case s.goOn <- struct{}{}:
		return s.stand(ctx)
	case err := <-s.over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *steps) close() error { return s.w.Close() }
