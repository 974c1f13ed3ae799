package workflowtest

import (
	"context"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/workflow"
)

// A Step is what the test says about the attempts at a step. It is safe for concurrent use.
type Step struct {
	all *steps

	// Guarded by steps.mu.
	path     string
	err      error
	fails    int // attempts that are still to fail
	delay    time.Duration
	instead  func(ctx context.Context) error
	attempts int
}

// steps are all of an Env.
type steps struct {
	mu     sync.Mutex
	byPath map[string]*Step // +checklocks:mu
	order  []string         // paths of attempts  +checklocks:mu
}

func (s *steps) init() { s.byPath = map[string]*Step{} }

// Step returns what is said about the step of that path, such as order/charge; in a loop
// it is that of one iteration, such as poll[3]/ask. Nothing is said at first.
func (e *Env) Step(path string) *Step {
	e.steps.mu.Lock()
	defer e.steps.mu.Unlock()
	return e.steps.step(path)
}

// +checklocks:s.mu
func (s *steps) step(path string) *Step {
	p := s.byPath[path]
	if p == nil {
		p = &Step{all: s, path: path}
		s.byPath[path] = p
	}
	return p
}

// Fail has the next n attempts fail with err, and do no work; a negative n all. It returns
// s.
func (s *Step) Fail(err error, n int) *Step {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.err, s.fails = err, n
	return s
}

// Slow has each attempt take d before it works or fails, or until its context is over,
// whose error it returns then. It returns s.
func (s *Step) Slow(d time.Duration) *Step {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.delay = d
	return s
}

// Before has each attempt call fn before it works: an error is that of the attempt. Nil is
// nothing. It returns s.
func (s *Step) Before(fn func(ctx context.Context) error) *Step {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.instead = fn
	return s
}

// Attempts returns how many there were, those that failed included, also before restarts.
func (s *Step) Attempts() int {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.attempts
}

// Attempts returns the paths of all attempts at steps in their order.
func (e *Env) Attempts() []string {
	e.steps.mu.Lock()
	defer e.steps.mu.Unlock()
	return append([]string(nil), e.steps.order...)
}

// around is workflow.Options.Around.
func (s *steps) around(inner func(context.Context, workflow.StepInfo, func(context.Context) error) error,
) func(context.Context, workflow.StepInfo, func(context.Context) error) error {

	return func(ctx context.Context, info workflow.StepInfo, do func(context.Context) error) error {
		if err := s.meet(ctx, info.Path); err != nil {
			return err
		}
		if inner != nil {
			return inner(ctx, info, do)
		}
		return do(ctx)
	}
}

// meet does what the test says.
func (s *steps) meet(ctx context.Context, path string) error {
	s.mu.Lock()
	p := s.step(path)
	p.attempts++
	s.order = append(s.order, path)
	delay, before := p.delay, p.instead
	var err error
	if p.fails != 0 {
		err = p.err
		p.fails--
	}
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil || before == nil {
		return err
	}
	return before(ctx)
}
