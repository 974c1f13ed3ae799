//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestHostDemo runs what the demonstration says to run, and ends it in good order.
func TestHostDemo(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip(err)
	}
	store := filepath.Join(t.TempDir(), "data")
	p := startHost(t, "", "--demo", store)
	var answers []string
	for _, line := range p.said {
		command, ok := strings.CutPrefix(line, "  curl ")
		if !ok {
			continue
		}
		out, err := exec.CommandContext(soonContext(t), "sh", "-c", curl+" -sS --fail-with-body "+command).CombinedOutput()
		if err != nil {
			t.Errorf("curl %s: %v, %s", command, err, out)
		}
		answers = append(answers, string(out))
	}
	if len(answers) != 3 || answers[0] != "2" || !strings.Contains(answers[1], `"id":1,`) || answers[2] != "["+answers[1]+"]" {
		t.Errorf("got %q", answers)
	}
	for path, want := range map[string]string{
		"/": "<title>Chat</title>", "/readyz": "ready", "/healthz": "ok", "/metrics": "greenroom_host_actors_awake 2\n",
	} {
		if got := fetch(t, p.url+path); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", path, got)
		}
	}
	// The store is measured, too, and from its opening on.
	if got := fetch(t, p.url+"/metrics"); !regexp.MustCompile(`greenroom_pebblekv_fsyncs_total\{file="log"\} [1-9]`).MatchString(got) {
		t.Errorf("/metrics has no fsyncs: %s", got)
	}
	if got := fetch(t, p.url+"/metrics"); !regexp.MustCompile(`greenroom_store_free_bytes [1-9]`).MatchString(got) {
		t.Errorf("/metrics doesn't have what is free: %s", got)
	}
	for _, what := range []string{`{is="failed"} 0`, `{is="stuck"} 0`} {
		if got := fetch(t, p.url+"/metrics"); !strings.Contains(got, "greenroom_store_workflows"+what) {
			t.Errorf("/metrics has no %s", what)
		}
	}
	// A client that stays connected doesn't keep the host from ending.
	s, _, err := p.dial(soonContext(t), "chat/lobby", hostMessage{Type: "connect", Params: map[string]string{"name": "Ann"}})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := s.ws.Read(context.Background()); err != nil {
				closed <- err
				return
			}
		}
	}()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if p.err != nil {
		t.Errorf("it ended with %v: %s", p.err, &p.stderr)
	}
	if err := <-closed; !strings.Contains(err.Error(), "come back") {
		t.Errorf("the socket was closed with %v", err)
	}
	if strings.Contains(p.stderr.String(), "level=ERROR") || strings.Contains(p.stderr.String(), "level=WARN") {
		t.Errorf("it has logged %s", &p.stderr)
	}
	if out := must(t, "traces", "ls", store, "counter/lobby"); !strings.Contains(out, "actor.action.add") {
		t.Errorf("its turns have left %s", out)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHostTemporary: a demonstration without a store leaves nothing behind.
func TestHostTemporary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		e := &env{stdin: strings.NewReader(""), stdout: in, stderr: io.Discard, getenv: func(string) string { return "" }, signals: &serving.Signals{}}
		done <- run(ctx, e, []string{"host", "--demo", "--listen", "127.0.0.1:0"})
		in.Close()
	}()
	buf := make([]byte, 4096)
	if _, err := out.Read(buf); err != nil { // it is served by then
		t.Fatal(err)
	}
	cancel()
	if code := <-done; code != serving.ExitOK {
		t.Errorf("status %d", code)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestHostRefuses: what would be open to others, or serves nothing, isn't begun.
func TestHostRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--demo", "--listen", "0.0.0.0:0"}, serving.ExitUsage, "--token-file"},
		{[]string{"--demo", "--listen", ":0"}, serving.ExitUsage, "--token-file"},
		{[]string{"--demo", "--listen", "example.com:0"}, serving.ExitUsage, "--token-file"},
		{[]string{"--demo", "--listen", "nothing"}, serving.ExitUsage, "not an address"},
		{[]string{"--demo", "--token-file", file("short", "# tokens\n0123456789abcdef\nsecret\n")}, serving.ExitFailed, "line 3"},
		{[]string{"--demo", "--token-file", file("empty", "# tokens\n\n")}, serving.ExitFailed, "no token"},
		{[]string{"--demo", "--token-file", filepath.Join(dir, "nothing")}, serving.ExitFailed, "no such file"},
		{[]string{filepath.Join(dir, "data")}, serving.ExitUsage, "nothing to serve"},
		{nil, serving.ExitUsage, "nothing to serve"},
	} {
		r := program(t.Context(), strings.NewReader(""), append([]string{"host"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%q: status %d, %s", c.args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("a store was made: %v", err)
	}
}

// TestHostTokens: with a token file a token is needed, on loopback too.
func TestHostTokens(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("# who\n0123456789abcdef\n  fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startHost(t, "", "--demo", "--token-file", tokens, "mem:")
	for token, want := range map[string]int{"": 401, "0123456789abcdef": 200, "fedcba9876543210": 200, "# who": 401} {
		req, err := http.NewRequestWithContext(soonContext(t), "POST", p.url+"/actors/counter/a/actions/get", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %d, want %d", token, resp.StatusCode, want)
		}
	}
	for _, line := range p.said {
		if strings.Contains(line, "0123456789abcdef") {
			t.Errorf("it has told a token: %s", line)
		}
	}
}
