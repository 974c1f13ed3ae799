//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestHostDiskFull: a host whose disk is full ends with a status of its own and one line
// that says why, and after a restart all acknowledged writes are there.
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
	if !errors.As(p.err, &exit) || exit.ExitCode() != serving.ExitStore {
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

// TestEngineFails: an engine whose store has failed ends with a status of its own.
func TestEngineFails(t *testing.T) {
	p := startServer(t, nil, "", "engine", filepath.Join(t.TempDir(), "data"))
	ctx := soonContext(t)
	put := func(key int) error {
		body := fmt.Sprintf(`{"name":"room","key":"%d","runner_name_selector":"default","crash_policy":"sleep"}`, key)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.url+"/actors", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for key := 1; put(key) == nil; key++ {
	}
	<-p.ended
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.ExitCode() != serving.ExitStore {
		t.Errorf("it ended with %v: %s", p.err, &p.stderr)
	}
	if text := p.stderr.String(); !strings.Contains(text, "the store has failed: file too large") {
		t.Errorf("it has said %q", text)
	}
}

// TestListenBound: connections take half of the files that the process may have open, and another one has to wait.
func TestListenBound(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	ln, err := serving.Listen(t.Context(), "127.0.0.1:0", false)
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 300)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 130 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	var conns []net.Conn
	for range 128 {
		conns = append(conns, <-accepted)
	}
	select {
	case <-accepted:
		t.Error("more than half of the files are connections")
	case <-time.After(20 * time.Millisecond):
	}
	if err := conns[0].Close(); err != nil {
		t.Fatal(err)
	}
	conns = append(conns[1:], <-accepted)
	for _, c := range conns {
		_ = c.Close()
	}
}

// TestEngineMinFree: an engine refuses what is to be stored while the disk has less free than it is told to keep, and lives on.
func TestEngineMinFree(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	must(t, "put", store, "notes", "k", "v")
	ctx := soonContext(t)
	for _, c := range []struct {
		free string
		want int
	}{{"1000000GiB", http.StatusInternalServerError}, {"1MiB", http.StatusOK}} {
		p := startServer(t, nil, "", "engine", "--min-free", c.free, store)
		for range 2 {
			body := `{"name":"room","key":"k","runner_name_selector":"default","crash_policy":"sleep"}`
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.url+"/actors", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != c.want {
				t.Errorf("with %s to be free the answer is %s, want %d", c.free, resp.Status, c.want)
			}
		}
		p.kill()
	}
}
