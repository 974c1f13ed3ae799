//go:build unix

package serving

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestSignals(t *testing.T) {
	kill := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, s, stop := WatchSignals(t.Context())
		outer, inner := make(chan struct{}), make(chan struct{})
		releaseOuter := s.Catch(func() { close(outer) })
		releaseInner := s.Catch(func() { close(inner) })
		kill(syscall.SIGINT)
		<-inner
		releaseInner()
		kill(syscall.SIGINT)
		<-outer
		releaseOuter()
		if ctx.Err() != nil {
			t.Error("an interrupt that was caught ended the program")
		}
		kill(sig)
		<-ctx.Done()
		stop()
	}
	// SIGTERM is for the program, even while a function catches interrupts.
	ctx, s, stop := WatchSignals(t.Context())
	defer stop()
	defer s.Catch(func() { t.Error("SIGTERM was taken for an interrupt") })()
	kill(syscall.SIGTERM)
	<-ctx.Done()
}

// TestSignalsAtEnd: signals may come at any time while a program gives them back.
func TestSignalsAtEnd(t *testing.T) {
	ours := make(chan os.Signal, 1) // so that no signal ends the tests
	signal.Notify(ours, syscall.SIGINT)
	defer signal.Stop(ours)
	end, sent := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-end:
				close(sent)
				return
			default:
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				sent <- err
				return
			}
		}
	}()
	for range 500 {
		ctx, _, stop := WatchSignals(t.Context())
		<-ctx.Done()
		stop()
	}
	close(end)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
