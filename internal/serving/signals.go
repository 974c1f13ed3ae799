package serving

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals decides what an interrupt (Ctrl-C) ends: the program, or what has
// asked for it with catch.
type Signals struct {
	mu  sync.Mutex
	End func() // what an interrupt calls  +checklocks:mu
}

// WatchSignals returns a context that ends with SIGTERM or with an interrupt
// that nothing catches. The signal after that ends the program at once, as it
// would have without this. stop gives the signals back.
func WatchSignals(ctx context.Context) (_ context.Context, s *Signals, stop func()) {
	ctx, cancelContext := context.WithCancel(ctx)
	ch := make(chan os.Signal, 1)
	cancel := func() {
		cancelContext()
		signal.Stop(ch)
	}
	s = &Signals{End: cancel}
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	// With a listener, a write to a closed pipe is an error and doesn't end the program,
	// so that the store is closed first.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done := make(chan struct{}) // ch is never closed: a signal may be on its way there still
	go func() {
		for {
			select {
			case sig := <-ch:
				if sig == os.Interrupt {
					s.Interrupt()
				} else {
					cancel()
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, s, func() {
		cancel()
		signal.Stop(pipe)
		close(done)
	}
}

// Interrupt does what an interrupt does.
func (s *Signals) Interrupt() {
	s.mu.Lock()
	end := s.End
	s.mu.Unlock()
	end()
}

// Catch makes interrupts call fn, until the function that it returns is called.
func (s *Signals) Catch(fn func()) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.End
	s.End = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.End = before
	}
}
