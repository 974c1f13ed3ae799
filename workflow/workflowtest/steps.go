package workflowtest

import (
	"context"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/workflow"
)

// A Step is what the test says about the attempts at a step. It is safe for concurrent use.
type Step struct {
	all *Steps

	// Guarded by Steps.mu.
	path     string
	err      error
	fails    int // attempts that are still to fail
	delay    time.Duration
	instead  func(ctx context.Context) error
	attempts int
}

// Steps are what the test says about the steps of workflows: those of an Env, or of any workflow whose
// workflow.Options.Around is Around, such as that of a type of actors in a host. The zero value says nothing. Steps are safe
// for concurrent use, and must not be copied.
type Steps struct {
	mu     sync.Mutex
	byPath map[string]*Step // +checklocks:mu
	order  []string         // paths of attempts  +checklocks:mu
}

// Step returns what is said about the step of that path, such as order/charge; in a loop
// it is that of one iteration, such as poll[3]/ask. Nothing is said at first.
func (s *Steps) Step(path string) *Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step(path)
}

// +checklocks:s.mu
func (s *Steps) step(path string) *Step {
	p := s.byPath[path]
	if p == nil {
		if s.byPath == nil {
			s.byPath = map[string]*Step{}
		}
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
func (s *Steps) Attempts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.order...)
}

// Around does what the test says, and then the work of the step. See workflow.Options.
func (s *Steps) Around(ctx context.Context, info workflow.StepInfo, do func(context.Context) error) error {
	if err := s.meet(ctx, info.Path); err != nil {
		return err
	}
	return do(ctx)
}

// meet does what the test says.
func (s *Steps) meet(ctx context.Context, path string) error {
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
