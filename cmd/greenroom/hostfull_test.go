//go:build unix

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHostDiskFull: a host whose disk is full ends with a status of its own and one line
// that says why, and a new one has all that was acknowledged.
func TestHostDiskFull(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	p := startHost(t, "", "--demo", store)
	ctx := soonContext(t)
	var n int
	if err := p.post(ctx, "/actors/counter/lobby/actions/add", 2, &n); err != nil || n != 2 {
		t.Fatalf("got %d, %v", n, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	acked, asked := 2, 2
	for err := error(nil); err == nil; asked++ {
		if err = p.post(ctx, "/actors/counter/lobby/actions/add", 1, &n); err == nil {
			acked = n
		}
	}
	<-p.ended
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.ExitCode() != exitStore {
		t.Errorf("it ended with %v: %s", p.err, &p.stderr)
	}
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "greenroom: the store has failed: file too large; ") {
		t.Errorf("it has said %q", last)
	}
	if text := p.stderr.String(); !strings.Contains(text, "shutting down") {
		t.Errorf("it hasn't logged why: %s", text)
	}
	p = startHost(t, "", "--demo", store)
	if err := p.post(ctx, "/actors/counter/lobby/actions/add", 0, &n); err != nil || n < acked || n > asked {
		t.Errorf("afterwards there are %d, acknowledged were %d, asked for %d: %v", n, acked, asked, err)
	}
}
