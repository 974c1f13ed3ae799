package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestEngine: the engine serves a store that it makes, and ends when it is told to.
func TestEngine(t *testing.T) {
	t.Chdir(t.TempDir())
	url, stop := runEngine(t)
	if text := fetch(t, url+"/health"); !strings.Contains(text, `"status":"ok"`) {
		t.Error(text)
	}
	if text := fetch(t, url+"/actors?name=room"); !strings.Contains(text, `"actors":[]`) {
		t.Error(text)
	}
	stop()
	if _, err := os.Stat(engineStore); err != nil {
		t.Error(err)
	}
}

// runEngine runs an engine until stop is called, which returns when it has ended.
func runEngine(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		e := &env{stdin: strings.NewReader(""), stdout: in, stderr: io.Discard, getenv: func(string) string { return "" }, signals: &serving.Signals{}}
		done <- run(ctx, e, append([]string{"engine", "--listen", "127.0.0.1:0"}, args...))
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	m := regexp.MustCompile(`^serving at (http://\S+)$`).FindStringSubmatch(lines.Text())
	if m == nil {
		t.Fatalf("it says %q", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return m[1], func() {
		cancel()
		if code := <-done; code != serving.ExitOK {
			t.Errorf("status %d", code)
		}
	}
}

// TestEngineRefuses: what would be open to others isn't begun.
func TestEngineRefuses(t *testing.T) {
	dir := t.TempDir()
	tokens, short := filepath.Join(dir, "tokens"), filepath.Join(dir, "short")
	for path, text := range map[string]string{tokens: "0123456789abcdef\n", short: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, serving.ExitUsage, "--runner-tokens"},
		{[]string{"--listen", "0.0.0.0:0", "--client-tokens", tokens}, serving.ExitUsage, "--runner-tokens"},
		{[]string{"--client-tokens", tokens}, serving.ExitUsage, "--runner-tokens"},
		{[]string{"--runner-tokens", short}, serving.ExitFailed, "line 1"},
		{[]string{"--runner-tokens", tokens, "--client-tokens", short}, serving.ExitFailed, "line 1"},
		{[]string{"--listen", "nothing"}, serving.ExitUsage, "--runner-tokens"},
		{[]string{"--tls-cert", tokens}, serving.ExitUsage, "--tls-key"},
		{[]string{"--advertise", "nothing"}, serving.ExitUsage, "--advertise"},
	} {
		r := program(t.Context(), strings.NewReader(""), append([]string{"engine", filepath.Join(dir, "data")}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%q: status %d, %s", c.args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("a store was made: %v", err)
	}
	r := program(t.Context(), strings.NewReader(""), "engine", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1")
	if r.code != serving.ExitUsage || !strings.Contains(r.stderr, "PostgreSQL") {
		t.Errorf("--advertise for a folder: status %d, %s", r.code, r.stderr)
	}
}
