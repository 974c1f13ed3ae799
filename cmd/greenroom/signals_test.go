//go:build unix

package main

import (
	"os"
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
		ctx, s, stop := watchSignals(t.Context())
		outer, inner := make(chan struct{}), make(chan struct{})
		releaseOuter := s.catch(func() { close(outer) })
		releaseInner := s.catch(func() { close(inner) })
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
	ctx, s, stop := watchSignals(t.Context())
	defer stop()
	defer s.catch(func() { t.Error("SIGTERM was taken for an interrupt") })()
	kill(syscall.SIGTERM)
	<-ctx.Done()
}
