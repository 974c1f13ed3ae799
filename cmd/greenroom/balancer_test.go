//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// balancerConfig is the file for nginx.
const balancerConfig = deployed + "/nginx/nginx.conf"

// findNginx returns the path of nginx.
func findNginx(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("hosts have loopback addresses of their own here, as on Linux")
	}
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("nginx, of Debian's package of that name, isn't there: its configuration isn't tried")
	return ""
}

// startBalancer starts nginx with the committed configuration, in which hosts stand in the places of host1 and so on, and returns its URL. It ends with the test.
func startBalancer(t *testing.T, hosts []string) string {
	t.Helper()
	program := findNginx(t)
	text, err := os.ReadFile(balancerConfig)
	if err != nil {
		t.Fatal(err)
	}
	// nginx takes over a socket that listens, so clients wait as long as it isn't there yet.
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	config, dir := string(text), t.TempDir()
	replace := func(from, to string) {
		if strings.Count(config, from) != 1 {
			t.Fatalf("%s has %q %d times", balancerConfig, from, strings.Count(config, from))
		}
		config = strings.Replace(config, from, to, 1)
	}
	replace("worker_rlimit_nofile 65536;\n", "") // which a test may not raise
	replace("listen 8080;", "listen "+ln.Addr().String()+";")
	own := "http {\n\taccess_log off;\n"
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += fmt.Sprintf("\t%[1]s_temp_path %[1]s;\n", what)
	}
	replace("http {\n", own)
	for i, at := range hosts {
		replace(fmt.Sprintf("server host%d:6420 ", i+1), "server "+at+" ")
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "-p", dir, "-c", file, "-e", "stderr", "-g", "daemon off; user root root; pid nginx.pid; error_log stderr;")
	cmd.Env = append(os.Environ(), "NGINX=3;")
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// To be given to a process has made it one whose accept waits, and nginx has several that accept.
	if err := syscall.SetNonblock(int(socket.Fd()), true); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "[emerg]") {
			t.Errorf("nginx has ended with %v", err)
		}
		if t.Failed() {
			t.Logf("nginx: %.8000s", &log)
		}
	})
	return "http://" + ln.Addr().String()
}

// TestBalancer restarts hosts behind nginx under load. No call with a key fails; one without fails only if it comes just as its host ends its listener, and isn't done twice.
// Sockets are closed with 1012, and go on at another host.
func TestBalancer(t *testing.T) {
	if testkit.Short() && !testkit.Race {
		t.Skip("it starts processes")
	}
	t.Parallel()
	findNginx(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(10*time.Second)+testkit.Pick(0, 0, time.Minute))
	defer cancel()
	n := pgtest.Shared(t)
	hosts := &fleetHosts{url: n.URL("schema=" + n.Schema()), stay: true}
	var at []string
	for i := range fleetHostCount {
		// Nothing else gets the port of a host while it is restarted: connections come from 127.0.0.1.
		h := hosts.start(t, fmt.Sprintf("127.0.0.%d:0", i+2))
		hosts.list = append(hosts.list, h)
		at = append(at, strings.TrimPrefix(h.url, "http://"))
	}
	t.Cleanup(func() {
		for i, h := range hosts.list {
			if t.Failed() {
				t.Logf("host %d: %.4000s", i, &h.stderr)
			}
		}
	})
	balancer := &fleetHost{hostProcess: &hostProcess{url: startBalancer(t, at)}, balancer: true}
	l := newFleetLoad(ctx, &fleetHosts{list: []*fleetHost{balancer}}, fleetSize{12, 6, 6, 2, 40 * time.Millisecond})
	l.begin(ctx)
	l.more(ctx, t)
	restarts := testkit.Pick(1, 1, 12)
	for i := range restarts {
		hosts.restart(ctx, t, i%fleetHostCount)
		l.more(ctx, t)
	}
	l.end(ctx, t)
	unanswered := 0
	for _, c := range l.callers {
		if unanswered += c.doubts; c.doubts > restarts {
			t.Errorf("caller %d, which has one call under way, got no answer %d times from %d hosts that ended", c.id, c.doubts, restarts)
		}
	}
	t.Logf("%d calls without a key got no answer", unanswered)
}

// A fakeHost is a host that fails.
type fakeHost struct {
	does  func(w http.ResponseWriter) // with a call that it has read; nil to refuse the connection
	calls atomic.Int32
}

// start starts the host, and returns its address. It ends with the test.
func (h *fakeHost) start(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if got, want := r.Method+" "+r.URL.EscapedPath()+" "+string(body), "POST /actors/counter/a%2Fb%20c/actions/add 2"; got != want || err != nil {
			t.Errorf("a host is asked for %q, %v, want %q", got, err, want)
		}
		h.calls.Add(1)
		h.does(w)
	}))
	t.Cleanup(s.Close)
	if h.does == nil {
		s.Close()
	}
	return s.Listener.Addr().String()
}

// TestBalancerErrors: what nginx does with a call that a host doesn't do. It asks another host if nothing was done, or if the call has a key; and a host that refuses one call gets the next ones.
func TestBalancerErrors(t *testing.T) {
	answers := func(http.ResponseWriter) {}
	breaks := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	denies := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, c := range []struct {
		name        string
		does        [3]func(http.ResponseWriter)
		key         string
		status      int
		first, next int32 // how many hosts get the first call, and then another one
	}{
		{"all answer", [3]func(http.ResponseWriter){answers, answers, answers}, "", 200, 1, 1},
		{"the first is down", [3]func(http.ResponseWriter){nil, answers, answers}, "", 200, 1, 1},
		{"all are down", [3]func(http.ResponseWriter){}, "", 502, 0, 0},
		{"the first denies", [3]func(http.ResponseWriter){denies, answers, answers}, "", 200, 2, 1},
		{"all deny", [3]func(http.ResponseWriter){denies, denies, denies}, "", 503, 2, 2},
		{"all deny, with a key", [3]func(http.ResponseWriter){denies, denies, denies}, "k", 503, 2, 2},
		{"the first breaks", [3]func(http.ResponseWriter){breaks, denies, answers}, "", 502, 1, 2},
		{"the first breaks, with a key", [3]func(http.ResponseWriter){breaks, answers, answers}, "k", 200, 2, 1},
		{"all break, with a key", [3]func(http.ResponseWriter){breaks, breaks, breaks}, "k", 502, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hosts [3]fakeHost
			var at []string
			for i := range hosts {
				hosts[i].does = c.does[i]
				at = append(at, hosts[i].start(t))
			}
			url := startBalancer(t, at)
			for i, want := range []int32{c.first, c.next} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/actors/counter/a%2Fb%20c/actions/add", strings.NewReader("2"))
				if err != nil {
					t.Fatal(err)
				}
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				if err := answer.Body.Close(); err != nil {
					t.Error(err)
				}
				calls := int32(0)
				for i := range hosts {
					calls += hosts[i].calls.Swap(0)
				}
				if calls != want || i == 0 && answer.StatusCode != c.status || answer.StatusCode == 503 && answer.Header.Get("Retry-After") != "1" {
					t.Errorf("call %d: status %d of %d hosts, want %d of %d: %v", i, answer.StatusCode, calls, c.status, want, answer.Header)
				}
			}
		})
	}
}
